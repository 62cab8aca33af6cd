import Foundation

/// The eight comparisons (Ashtakoota) of the Moons of two births, with 36 points at most.
///
/// Schools differ in details. The rules here are those of North Indian almanacs; the tables are
/// named at ``KutaTables``.
public struct Compatibility: Hashable, Codable, Sendable {
    /// A comparison.
    public enum Kuta: String, Codable, CaseIterable, Sendable {
        case varna, vashya, tara, yoni, grahaMaitri, gana, bhakoot, nadi

        /// The points of a perfect match.
        public var maximum: Double { Double((Self.allCases.firstIndex(of: self) ?? 0) + 1) }
    }

    /// The points of one comparison.
    public struct Score: Hashable, Codable, Sendable {
        public let kuta: Kuta
        public let points: Double
    }

    /// The eight scores, in the order of ``Kuta``.
    public let scores: [Score]

    /// The sum of the points, of 36.
    public var total: Double { scores.reduce(0) { $0 + $1.points } }

    /// Compares two births.
    ///
    /// Some comparisons are not symmetrical.
    public init(groom: BirthData, bride: BirthData) {
        self.init(groom: MoonPlace(of: groom), bride: MoonPlace(of: bride))
    }

    init(groom: MoonPlace, bride: MoonPlace) {
        scores = Kuta.allCases.map { kuta in
            Score(kuta: kuta, points: Self.points(kuta, groom, bride))
        }
    }

    /// Returns the points of a comparison.
    public subscript(_ kuta: Kuta) -> Double {
        scores.first { $0.kuta == kuta }?.points ?? 0
    }

    private static func points(_ kuta: Kuta, _ groom: MoonPlace, _ bride: MoonPlace) -> Double {
        switch kuta {
        case .varna:
            KutaTables.varna(of: groom.sign) >= KutaTables.varna(of: bride.sign) ? 1 : 0
        case .vashya: KutaTables.vashya[bride.vashya.rawValue][groom.vashya.rawValue]
        case .tara:
            tara(of: groom.nakshatra, from: bride.nakshatra)
                + tara(of: bride.nakshatra, from: groom.nakshatra)
        case .yoni:
            KutaTables.yoni[KutaTables.animal(of: bride.nakshatra)][
                KutaTables.animal(of: groom.nakshatra)
            ]
        case .grahaMaitri: grahaMaitri(groom.sign.lord, bride.sign.lord)
        case .gana:
            KutaTables.gana[KutaTables.gana(of: bride.nakshatra)][
                KutaTables.gana(of: groom.nakshatra)
            ]
        case .bhakoot:
            [2, 5, 6, 8, 9, 12].contains(groom.sign.count(from: bride.sign)) ? 0 : 7
        case .nadi:
            KutaTables.nadi(of: groom.nakshatra) == KutaTables.nadi(of: bride.nakshatra) ? 0 : 8
        }
    }

    /// Returns half of the points of tara: every third, fifth and seventh mansion has none.
    private static func tara(of nakshatra: Nakshatra, from other: Nakshatra) -> Double {
        [3, 5, 7].contains(nakshatra.count(from: other) % 9) ? 0 : 1.5
    }

    private static func grahaMaitri(_ groom: Body, _ bride: Body) -> Double {
        guard groom != bride else { return 5 }
        let views = [
            KutaTables.view(of: groom, on: bride), KutaTables.view(of: bride, on: groom),
        ]
        return switch (views.count { $0 == .friend }, views.count { $0 == .enemy }) {
        case (2, _): 5
        case (1, 0): 4
        case (0, 0): 3
        case (1, _): 1
        case (_, 1): 0.5
        default: 0
        }
    }
}

/// The Moon's sidereal place, from which all comparisons follow.
struct MoonPlace: Hashable, Sendable {
    let nakshatra: Nakshatra
    let sign: Sign
    let vashya: Vashya

    init(of birth: BirthData) {
        let origin = Zodiac.sidereal.origin(at: birth.moment)
        self.init(longitude: Sky.longitude(of: .moon, at: birth.moment) - origin)
    }

    init(longitude: Double) {
        nakshatra = Nakshatra(containing: longitude)
        sign = Sign(containing: longitude)
        let isFirstHalf = Angle.normalized(longitude).truncatingRemainder(dividingBy: 30) < 15
        vashya = Vashya(of: sign, isFirstHalf: isFirstHalf)
    }
}
