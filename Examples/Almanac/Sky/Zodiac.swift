/// A sign of the zodiac, a twelfth of the ecliptic.
public enum Sign: String, Codable, CaseIterable, Sendable {
    case aries, taurus, gemini, cancer, leo, virgo
    case libra, scorpio, sagittarius, capricorn, aquarius, pisces

    /// Creates the sign that contains a longitude.
    public init(containing longitude: Double) {
        self = Self.allCases[Int(Angle.normalized(longitude) / 30)]
    }

    /// The sign's place in the zodiac, from 0 to 11.
    public var index: Int { Self.allCases.firstIndex(of: self) ?? 0 }

    /// The planet that rules the sign, of the seven that are visible.
    public var lord: Body {
        switch self {
        case .aries, .scorpio: .mars
        case .taurus, .libra: .venus
        case .gemini, .virgo: .mercury
        case .cancer: .moon
        case .leo: .sun
        case .sagittarius, .pisces: .jupiter
        case .capricorn, .aquarius: .saturn
        }
    }

    /// Returns the sign's number from another one, which itself is 1.
    public func count(from other: Sign) -> Int { (index - other.index + 12) % 12 + 1 }
}

/// A lunar mansion, a twenty-seventh of the sidereal ecliptic.
public enum Nakshatra: String, Codable, CaseIterable, Sendable {
    case ashwini, bharani, krittika, rohini, mrigashira, ardra, punarvasu, pushya, ashlesha
    case magha, purvaPhalguni, uttaraPhalguni, hasta, chitra, swati, vishakha, anuradha, jyeshtha
    case mula, purvaAshadha, uttaraAshadha, shravana, dhanishta, shatabhisha
    case purvaBhadrapada, uttaraBhadrapada, revati

    /// The length of a mansion, in degrees.
    static let length = 360.0 / 27

    /// Creates the mansion that contains a sidereal longitude.
    public init(containing longitude: Double) {
        self = Self.allCases[min(Int(Angle.normalized(longitude) / Self.length), 26)]
    }

    /// The mansion's place, from 0 to 26.
    public var index: Int { Self.allCases.firstIndex(of: self) ?? 0 }

    /// The planet or node whose dasha begins with the Moon in this mansion.
    public var lord: Body { Vimshottari.order[index % 9].lord }

    /// Returns the quarter of its mansion that contains a sidereal longitude, from 1 to 4.
    public static func quarter(of longitude: Double) -> Int {
        min(Int(Angle.normalized(longitude) / (length / 4)), 107) % 4 + 1
    }

    /// Returns the mansion's number from another one, which itself is 1.
    public func count(from other: Nakshatra) -> Int { (index - other.index + 27) % 27 + 1 }
}

/// The origin of longitudes.
public enum Zodiac: String, Codable, CaseIterable, Sendable {
    /// The equinox of the date.
    case tropical
    /// A point that is fixed among the stars, by Lahiri's ayanamsa.
    case sidereal

    /// Returns the zodiac's origin in degrees from the true equinox of the date.
    public func origin(at moment: Moment) -> Double {
        switch self {
        case .tropical: 0
        case .sidereal: ayanamsa(at: moment) + EarthOrientation(at: moment).nutation
        }
    }

    /// Returns Lahiri's ayanamsa in degrees from the mean equinox of the date; 0 if tropical.
    ///
    /// The ayanamsa of the Calendar Reform Committee (Government of India, 1955) is 23°15′00.658″
    /// from the true equinox on 1956-03-21 at 0:00, from which the *Indian Astronomical Ephemeris*
    /// of 1989, page 556, subtracts the nutation of 16.769″. The precession since then is that of
    /// Lieske (Astronomy and Astrophysics 58, 1977), which the IAU adopted in 1976.
    public func ayanamsa(at moment: Moment) -> Double {
        guard self == .sidereal else { return 0 }
        let reference = 23.250182778 - 0.004658035
        return reference + Self.precession(moment.centuries)
            - Self.precession((2_435_553.5 - 2_451_545) / 36_525)
    }

    /// Returns the general precession in longitude since 2000, in degrees.
    private static func precession(_ centuries: Double) -> Double {
        Angle.polynomial(centuries, [0, 5029.0966, 1.11113, -0.000006]) / 3600
    }
}
