/// One of Ptolemy's five aspects between two bodies of a chart (*Tetrabiblos* I, 13).
public struct Aspect: Hashable, Codable, Sendable {
    public enum Kind: String, Codable, CaseIterable, Sendable {
        case conjunction, sextile, square, trine, opposition

        /// The exact angle between the bodies, in degrees.
        public var angle: Double {
            switch self {
            case .conjunction: 0
            case .sextile: 60
            case .square: 90
            case .trine: 120
            case .opposition: 180
            }
        }
    }

    /// The first body, in the order of ``Body``.
    public let first: Body
    public let second: Body
    public let kind: Kind
    /// The deviation from the exact angle, in degrees.
    public let orb: Double

    /// The greatest deviation of an aspect, in degrees: with the Sun or the Moon 8, else 6.
    public static func greatestOrb(_ first: Body, _ second: Body) -> Double {
        [first, second].contains { $0 == .sun || $0 == .moon } ? 8 : 6
    }

    /// Returns the aspect of two longitudes, or `nil` if there is none.
    static func between(
        _ first: (body: Body, longitude: Double),
        _ second: (body: Body, longitude: Double)
    ) -> Aspect? {
        // The nodes are always opposite.
        guard first.body != .rahu || second.body != .ketu else { return nil }
        let angle = abs(Angle.difference(from: first.longitude, to: second.longitude))
        let greatest = greatestOrb(first.body, second.body)
        return Kind.allCases.lazy
            .map { (kind: $0, orb: abs(angle - $0.angle)) }
            .first { $0.orb <= greatest }
            .map {
                let orb = ($0.orb * 1_000_000).rounded() / 1_000_000
                return Aspect(first: first.body, second: second.body, kind: $0.kind, orb: orb)
            }
    }

    /// Returns the aspects of a chart, the closest first.
    static func all(between positions: [Chart.Position]) -> [Aspect] {
        positions.indices.flatMap { index in
            positions[(index + 1)...].compactMap { other in
                between(
                    (positions[index].body, positions[index].longitude),
                    (other.body, other.longitude)
                )
            }
        }
        .sorted { $0.orb < $1.orb }
    }
}
