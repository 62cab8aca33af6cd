public import AlmanacSky
public import SanguineModel

/// Asks for the prediction of a day.
///
/// The server keeps the answer for 24 hours, for the account and the day of the input.
public struct PredictToday: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var birth: BirthData
        /// The user's day.
        public var day: CalendarDay
    }

    public static let name = "todays-prediction"
    public static let rules = FunctionRules(
        price: .free,
        cache: .duration(.seconds(86_400)),
        limits: FunctionLimits(inputBytes: 1 << 10, runningPerAccount: 2)
    )
    public typealias Output = String
    public let input: Input

    public init(for birth: BirthData, on day: CalendarDay) {
        input = Input(birth: birth, day: day)
    }
}

/// Asks a question about a birth.
///
/// The server answers a repeated question of the same session from its cache, without a charge.
public struct Predict: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var birth: BirthData
        public var question: String
        /// The day from which transits count.
        public var day: CalendarDay
    }

    public static let name = "predict"
    public static let rules = FunctionRules(
        price: .almanac,
        cache: .session,
        streams: true,
        limits: .guarded
    )
    public static let expectedCost: Int64 = 3
    public static let whenOffline = OfflineCall.queue
    public typealias Output = String
    public let input: Input

    public init(_ question: String, about birth: BirthData, on day: CalendarDay) {
        input = Input(birth: birth, question: question, day: day)
    }
}

/// Asks how two persons match.
///
/// The points are computed; the language model explains them.
public struct ExplainMatch: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var groom: BirthData
        public var bride: BirthData
    }

    public static let name = "compatibility"
    public static let rules = FunctionRules(
        price: .almanac,
        cache: .session,
        streams: true,
        limits: .guarded
    )
    public static let expectedCost: Int64 = 3
    public static let whenOffline = OfflineCall.queue
    public typealias Output = String
    public let input: Input

    public init(groom: BirthData, bride: BirthData) {
        input = Input(groom: groom, bride: bride)
    }
}

extension Price {
    /// The price of the model's tokens in the user's tokens.
    fileprivate static let almanac = usage(perMillionInput: 2_000, perMillionOutput: 8_000)
}

extension FunctionLimits {
    /// The limits of a question.
    fileprivate static let guarded = FunctionLimits(
        inputBytes: 2 << 10,
        runningPerAccount: 3,
        repeatsPerMinute: 10
    )
}
