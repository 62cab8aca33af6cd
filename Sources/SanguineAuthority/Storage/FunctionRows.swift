import Foundation
public import SanguineModel

/// What a call takes of a daily quota, until it ends.
///
/// The units belong to the day on which they were taken: they count as used from then on, and are
/// given back to that day alone.
public struct QuotaHold: Hashable, Sendable {
    /// The quota's name in the configuration.
    public var name: String
    /// The user's day.
    public var day: CalendarDay
    /// How much.
    public var units: Int64
    /// Whether the units stay used if the call was sent and its end is never known.
    public var isKeptWhenLost: Bool

    /// Creates a hold; its units are given back if the call is lost, unless it says otherwise.
    public init(name: String, day: CalendarDay, units: Int64, isKeptWhenLost: Bool = false) {
        self.name = name
        self.day = day
        self.units = units
        self.isKeptWhenLost = isKeptWhenLost
    }
}

/// An answer of a function that is kept for later calls.
public struct ResultRow: Hashable, Sendable {
    /// SHA-256 of what the answer is an answer to; see ``ResultKey``.
    public var key: [UInt8]
    /// Whose answer it is; `nil` for everybody's.
    public var account: Identifier?
    /// The function's name.
    public var function: String
    /// The `output` of the answer, as JSON.
    public var output: [UInt8]
    /// When it was made.
    public var madeAt: Timestamp
    /// From when on it is not given any more.
    public var expiresAt: Timestamp

    /// Creates the row.
    public init(
        key: [UInt8],
        account: Identifier?,
        function: String,
        output: [UInt8],
        madeAt: Timestamp,
        expiresAt: Timestamp
    ) {
        self.key = key
        self.account = account
        self.function = function
        self.output = output
        self.madeAt = madeAt
        self.expiresAt = expiresAt
    }
}

/// Some parts of a streamed answer, in a row.
public struct PartsRow: Hashable, Sendable {
    /// The run that has made them: several calls may follow one.
    public var run: Identifier
    /// The index of the first one; the answer's first part has 0.
    public var first: Int64
    /// The texts, as a JSON array of strings.
    public var texts: [UInt8]
    /// When they were stored.
    public var at: Timestamp

    /// The texts.
    var parts: [String] {
        (try? JSONDecoder().decode([String].self, from: Data(texts))) ?? []
    }

    /// Creates the row.
    public init(run: Identifier, first: Int64, texts: [UInt8], at: Timestamp) {
        self.run = run
        self.first = first
        self.texts = texts
        self.at = at
    }
}
