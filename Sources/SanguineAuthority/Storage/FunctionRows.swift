import Foundation
public import SanguineModel

/// The part of a daily quota that a call reserves until it ends.
///
/// The units belong to the day on which they were reserved. They count as used from that moment,
/// and can only be returned to that day.
public struct QuotaHold: Hashable, Sendable {
    /// The quota's name in the configuration.
    public var name: String
    /// The user's day.
    public var day: CalendarDay
    /// The number of units.
    public var units: Int64
    /// Whether the units stay used if the call was sent and its end is never known.
    public var isKeptWhenLost: Bool

    /// Creates a hold; by default its units are returned if the call is lost.
    public init(name: String, day: CalendarDay, units: Int64, isKeptWhenLost: Bool = false) {
        self.name = name
        self.day = day
        self.units = units
        self.isKeptWhenLost = isKeptWhenLost
    }
}

/// A cached answer of a function, for later calls.
public struct ResultRow: Hashable, Sendable {
    /// The SHA-256 of the request that the answer belongs to, and the account of a private answer;
    /// see ``ResultKey``.
    public var key: [UInt8]
    /// The account that may receive the answer; `nil` for a public one.
    public var account: Identifier?
    /// The function's name.
    public var function: String
    /// The `output` of the answer, as JSON.
    public var output: [UInt8]
    /// The time at which the answer was produced.
    public var madeAt: Timestamp
    /// The time after which the answer is no longer used.
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

/// Consecutive parts of a streamed answer.
public struct PartsRow: Hashable, Sendable {
    /// The run that produced the parts; several calls may follow one run.
    public var run: Identifier
    /// The index of the first of these parts; the answer begins with 0.
    public var first: Int64
    /// The texts, as a JSON array of strings.
    public var texts: [UInt8]
    /// The time when the parts were stored.
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
