public import SanguineModel

/// The state of a query at one moment.
///
/// Its parts are consistent with each other.
public struct ValueSnapshot<Value: Codable & Sendable & Equatable>: Sendable, Equatable {
    /// The value, fresh or stale; `nil` if there never was one.
    public var value: Value?
    /// The time at which the value arrived from its source; `nil` without a value.
    public var asOf: Timestamp?
    /// Whether a fetch is in progress.
    public var isFetching: Bool
    /// The error of the last fetch; `nil` if it succeeded.
    public var error: SanguineError?

    /// Creates a snapshot.
    ///
    /// By default, there is no value and no fetch.
    public init(
        value: Value? = nil,
        asOf: Timestamp? = nil,
        isFetching: Bool = false,
        error: SanguineError? = nil
    ) {
        self.value = value
        self.asOf = asOf
        self.isFetching = isFetching
        self.error = error
    }

    /// Returns the age of the value; `nil` without one.
    ///
    /// It is never negative, because clocks may be set back.
    public func age(at now: Timestamp) -> Duration? {
        asOf.map { max(.zero, now - $0) }
    }
}
