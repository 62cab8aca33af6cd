public import AlmanacSky
public import SanguineModel

/// Computes a chart, its periods and a year's transits: everything that the app shows of a birth.
///
/// The answer depends on the input only. The server computes it for each call, and the app keeps
/// it under the ``BirthData/key`` of the birth.
public struct ComputeAstroData: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var birth: BirthData
        /// The year of the transits, in UTC.
        public var year: Int
    }

    public static let name = "astrodata"
    public static let rules = FunctionRules(
        price: .free,
        limits: FunctionLimits(inputBytes: 1 << 10, runningPerAccount: 2)
    )
    public typealias Output = AstroData
    public let input: Input

    public init(of birth: BirthData, in year: Int) { input = Input(birth: birth, year: year) }
}

/// The positions at a birth and what follows from them.
public struct AstroData: Hashable, Codable, Sendable {
    public let chart: Chart
    /// The nine periods from the one that runs at the birth.
    public let periods: [DashaPeriod]
    /// The entries of slow bodies into signs in the year.
    public let transits: [Transit]

    public init(_ input: ComputeAstroData.Input) throws(SkyError) {
        chart = try Chart(of: input.birth)
        periods = Vimshottari.periods(of: input.birth)
        transits = try Transit.all(in: input.year)
    }

    /// Returns the period and its part that contain a moment, or `nil` outside of the 120 years.
    public func period(at moment: Moment) -> (period: DashaPeriod, part: DashaPeriod)? {
        guard let period = periods.first(where: { $0.contains(moment) }),
            let part = period.parts.last(where: { $0.start <= moment })
        else { return nil }
        return (period, part)
    }
}
