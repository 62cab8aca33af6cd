/// A mutation of either kind that can supersede earlier ones that have not been sent yet.
///
/// ```swift
/// extension Unlike: Superseding {
///     func supersedes(_ earlier: any Mutation) -> Supersession? {
///         (earlier as? Like)?.track == track ? .undoes : nil
///     }
/// }
/// ```
///
/// As a result, a like and an unlike while offline cause no request at all. When an operation is
/// performed, it is compared with waiting operations of its kind and lane that have certainly not
/// reached a server, from the newest to the oldest, until it undoes one. An operation that was
/// sent, or may have been, is never superseded: the new operation is sent after it.
public protocol Superseding: Mutation {
    /// Returns the effect of this operation on an earlier one.
    ///
    /// It is deterministic, like ``RecordMutation/apply(to:)``: it depends only on the two
    /// mutations, and calls no client.
    ///
    /// - Parameter earlier: A mutation of the same kind and lane, of any type.
    /// - Returns: The effect, or `nil` if the earlier mutation must still be sent.
    func supersedes(_ earlier: any Mutation) -> Supersession?
}

/// The effect of an operation on an earlier one that waits.
public enum Supersession: Hashable, Sendable {
    /// Together the two change nothing, so neither is sent.
    case undoes
    /// The new operation includes the earlier one, which is not sent.
    case replaces
}
