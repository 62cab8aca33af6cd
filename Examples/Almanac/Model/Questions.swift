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

/// The part of life that a question concerns, by which threads are listed.
public enum Area: String, Hashable, Codable, CaseIterable, Sendable {
    case life, love, career, family
    /// The explanations of matches.
    case match
}

/// Asks a question about a birth.
///
/// The server answers a repeated question of the same session from its cache, without a charge.
/// Question and answer stand in a thread, whose title is the question.
public struct Predict: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var birth: BirthData
        public var question: String
        /// The day from which transits count.
        public var day: CalendarDay
        public var area: Area
    }

    public static let name = "predict"
    public static let rules = FunctionRules.inThread
    public static let expectedCost: Int64 = 3
    public static let whenOffline = OfflineCall.queue
    public typealias Output = String
    public let input: Input

    public init(
        _ question: String,
        about birth: BirthData,
        on day: CalendarDay,
        in area: Area = .life
    ) {
        input = Input(birth: birth, question: question, day: day, area: area)
    }
}

/// Asks how two persons match.
///
/// The points are computed; the language model explains them, in the thread of the ``Match``.
public struct ExplainMatch: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var groom: BirthData
        public var bride: BirthData
        /// The text of the question in its thread.
        public var question: String
        public var area = Area.match
    }

    public static let name = "compatibility"
    public static let rules = FunctionRules.inThread
    public static let expectedCost: Int64 = 3
    public static let whenOffline = OfflineCall.queue
    public typealias Output = String
    public let input: Input

    public init(groom: BirthData, bride: BirthData) {
        let points = Compatibility(groom: groom, bride: bride).total
        input = Input(groom: groom, bride: bride, question: "Explain \(points) of 36 points.")
    }
}

/// Makes the title of a new thread from its first question.
public struct MakeTitle: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var question: String
        public var answer: String
    }

    public static let name = "title"
    public static let rules = FunctionRules(price: .free)
    public typealias Output = String
    public let input: Input

    /// Returns the first words of a question.
    public static func title(of question: String) -> String {
        let words = question.split(whereSeparator: \.isWhitespace)
        return words.prefix(8).joined(separator: " ") + (words.count > 8 ? "…" : "")
    }
}

extension FunctionRules {
    /// The rules of a question in a thread.
    ///
    /// An answer depends on its question only, so that a repeated one comes from the session's
    /// cache: the model does not receive the earlier messages of the thread.
    fileprivate static let inThread = FunctionRules(
        price: .usage(perMillionInput: 2_000, perMillionOutput: 8_000),
        cache: .session,
        streams: true,
        limits: .guarded,
        keepsHistory: true,
        history: HistoryRules(messages: 0),
        titles: MakeTitle.name
    )
}

extension FunctionLimits {
    /// The limits of a question.
    fileprivate static let guarded = FunctionLimits(
        inputBytes: 2 << 10,
        runningPerAccount: 3,
        repeatsPerMinute: 10
    )
}
