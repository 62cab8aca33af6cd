/// A mutation of either kind that makes earlier ones needless which have not been sent yet.
///
/// ```swift
/// extension Unlike: Superseding {
///     func supersedes(_ earlier: any Mutation) -> Supersession? {
///         (earlier as? Like)?.track == track ? .undoes : nil
///     }
/// }
/// ```
///
/// So a like and an unlike while the network is away cause no request at all. When an operation is
/// performed, it is asked about those of its kind and lane that wait and have surely reached
/// nobody, from the newest to the oldest, until it undoes one. What was sent, or may have been, is
/// never superseded: the new operation is then sent after it.
public protocol Superseding: Mutation {
    /// What this operation means for an earlier one.
    ///
    /// Deterministic, like ``RecordMutation/apply(to:)``: it looks at the two mutations and nothing
    /// else, and calls no client.
    ///
    /// - Parameter earlier: A mutation of the same kind and lane, of any type.
    /// - Returns: `nil` if the earlier one is sent all the same.
    func supersedes(_ earlier: any Mutation) -> Supersession?
}

/// What an operation means for an earlier one that waits.
public enum Supersession: Hashable, Sendable {
    /// The two together change nothing: neither is sent.
    case undoes
    /// The new one says all that the earlier one said: the earlier one is not sent.
    case replaces
}
