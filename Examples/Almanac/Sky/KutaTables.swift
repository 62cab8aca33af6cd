/// The group of a sign by which the influence of two persons on each other is compared.
enum Vashya: Int, Sendable {
    case quadruped, human, water, wild, insect

    init(of sign: Sign, isFirstHalf: Bool) {
        self =
            switch sign {
            case .aries, .taurus: .quadruped
            case .gemini, .virgo, .libra, .aquarius: .human
            case .cancer, .pisces: .water
            case .leo: .wild
            case .scorpio: .insect
            case .sagittarius: isFirstHalf ? .human : .quadruped
            case .capricorn: isFirstHalf ? .quadruped : .water
            }
    }
}

/// The tables of the eight comparisons.
///
/// The friendships of the planets are those of the *Brihat Parashara Hora Shastra*, chapter 3,
/// verse
/// 55. The other tables are those of the site saravali.de (M. Pettau, author of the program
/// Maitreya), as the package PyJHora 4.8.7 has them. The counting of tara is that of Maitreya 8.
enum KutaTables {
    /// Returns the rank of a sign: Shudra, Vaishya, Kshatriya or Brahmin, from 0 to 3.
    static func varna(of sign: Sign) -> Int {
        switch sign {
        case .cancer, .scorpio, .pisces: 3
        case .aries, .leo, .sagittarius: 2
        case .taurus, .virgo, .capricorn: 1
        case .gemini, .libra, .aquarius: 0
        }
    }

    /// The points of a bride's group (row) with a groom's, in the order of ``Vashya``.
    static let vashya: [[Double]] = [
        [2, 0.5, 1, 0, 2],
        [0.5, 2, 0, 0, 0],
        [1, 0, 2, 2, 2],
        [0, 0, 2, 2, 0],
        [1, 0, 1, 0, 2],
    ]

    /// Returns the animal of a mansion, a row of ``yoni``.
    static func animal(of nakshatra: Nakshatra) -> Int { animals[nakshatra.index] }

    private static let animals = [
        0, 1, 2, 3, 3, 4, 5, 2, 5, 6, 6, 7, 8, 9, 8, 9, 10, 10, 4, 11, 12, 11, 13, 0, 13, 7, 1,
    ]

    /// The points of two animals: horse, elephant, sheep, serpent, dog, cat, rat, cow, buffalo,
    /// tiger, deer, monkey, mongoose, lion.
    static let yoni: [[Double]] = [
        [4, 2, 2, 3, 2, 2, 2, 1, 0, 1, 1, 3, 2, 1],
        [2, 4, 3, 3, 2, 2, 2, 2, 3, 1, 2, 3, 2, 0],
        [2, 3, 4, 2, 1, 2, 1, 3, 3, 1, 2, 0, 3, 1],
        [3, 3, 2, 4, 2, 1, 1, 1, 1, 2, 2, 2, 0, 2],
        [2, 2, 1, 2, 4, 2, 1, 2, 2, 1, 0, 2, 1, 1],
        [2, 2, 2, 1, 2, 4, 0, 2, 2, 1, 3, 3, 2, 1],
        [2, 2, 1, 1, 1, 0, 4, 2, 2, 2, 2, 2, 1, 2],
        [1, 2, 3, 1, 2, 2, 2, 4, 3, 0, 3, 2, 2, 1],
        [0, 3, 3, 1, 2, 2, 2, 3, 4, 1, 2, 2, 2, 1],
        [1, 1, 1, 2, 1, 1, 2, 0, 1, 4, 1, 1, 2, 1],
        [1, 2, 2, 2, 0, 3, 2, 3, 2, 1, 4, 2, 2, 1],
        [3, 3, 0, 2, 2, 3, 2, 2, 2, 1, 2, 4, 3, 2],
        [2, 2, 3, 0, 1, 2, 1, 2, 2, 2, 2, 3, 4, 2],
        [1, 0, 1, 2, 1, 1, 2, 1, 1, 1, 1, 2, 2, 4],
    ]

    /// Returns the temper of a mansion, a row of ``gana``: of gods, of humans or of demons.
    static func gana(of nakshatra: Nakshatra) -> Int {
        switch nakshatra {
        case .ashwini, .mrigashira, .punarvasu, .pushya, .hasta, .swati, .anuradha, .shravana,
            .revati:
            0
        case .bharani, .rohini, .ardra, .purvaPhalguni, .uttaraPhalguni, .purvaAshadha,
            .uttaraAshadha, .purvaBhadrapada, .uttaraBhadrapada:
            1
        case .krittika, .ashlesha, .magha, .chitra, .vishakha, .jyeshtha, .mula, .dhanishta,
            .shatabhisha:
            2
        }
    }

    /// The points of a bride's temper (row) with a groom's.
    static let gana: [[Double]] = [[6, 6, 0], [5, 6, 0], [1, 0, 6]]

    /// Returns the pulse of a mansion, from 0 to 2.
    ///
    /// The mansions go forth and back through the three.
    static func nadi(of nakshatra: Nakshatra) -> Int { [0, 1, 2, 2, 1, 0][nakshatra.index % 6] }

    /// A planet's view on another one.
    enum View { case friend, neutral, enemy }

    /// Returns the natural view of a planet on another one.
    static func view(of planet: Body, on other: Body) -> View {
        let (friends, enemies): ([Body], [Body]) =
            switch planet {
            case .sun: ([.moon, .mars, .jupiter], [.venus, .saturn])
            case .moon: ([.sun, .mercury], [])
            case .mars: ([.sun, .moon, .jupiter], [.mercury])
            case .mercury: ([.sun, .venus], [.moon])
            case .jupiter: ([.sun, .moon, .mars], [.mercury, .venus])
            case .venus: ([.mercury, .saturn], [.sun, .moon])
            case .saturn: ([.mercury, .venus], [.sun, .moon, .mars])
            case .uranus, .neptune, .rahu, .ketu: ([], [])
            }
        return friends.contains(other) ? .friend : enemies.contains(other) ? .enemy : .neutral
    }
}
