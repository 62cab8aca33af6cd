public import SanguineModel

/// What is known of a query at one moment: one snapshot, so that its parts agree with each other.
public struct ValueSnapshot<Value: Codable & Sendable & Equatable>: Sendable, Equatable {
    /// The value, fresh or not; `nil` if there never was one.
    public var value: Value?
    /// When the value arrived from its source; `nil` without a value.
    public var asOf: Timestamp?
    /// Whether a fetch is under way.
    public var isFetching: Bool
    /// Why the last fetch failed; `nil` after one that succeeded.
    public var error: SanguineError?

    /// Creates a state.
    ///
    /// Default: nothing known, nothing under way.
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

    /// How old the value is, or `nil` without one.
    ///
    /// Never negative: clocks are set back at times.
    public func age(at now: Timestamp) -> Duration? {
        asOf.map { max(.zero, now - $0) }
    }
}
