public import SanguineModel

/// A write to any backend that is visible before it is sent.
///
/// ```swift
/// struct Like: RemoteMutation {
///     static let name = "post.like"
///     let post: String
///     var lane: String { post }
///
///     func effects(on view: inout MutationEffects) {
///         view.update(.post(post)) { $0.likes += 1 }
///     }
///
///     func send(_ request: MutationContext) async throws {
///         try await request.post("posts/\(post)/like")
///     }
/// }
///
/// try client.perform(Like(post: post.id))
/// ```
///
/// The members are stored on disk as JSON; numbers and dates are restored exactly. A mutation is an
/// intent, never a copy of a value: its effects are applied again to each newer value until the
/// backend's own value contains them.
///
/// A mutation that refers to a temporary id belongs in the lane of the mutation that creates it. A
/// mutation that undoes or replaces others that have not been sent conforms to `Superseding`.
public protocol RemoteMutation: Mutation {
    /// Declares the changes that the mutation makes to visible values.
    ///
    /// Called when the mutation is performed, and again after a restart. The declared changes are
    /// applied to each new value, on any thread, and have access only to the value and the members.
    func effects(on view: inout MutationEffects)

    /// Sends the mutation, with requests that carry its id as their `Idempotency-Key`.
    ///
    /// Called until the backend has answered. After a lost response it is called again, in a later
    /// process if necessary. The outcome depends on the result:
    ///
    /// - It returns, or the response with a status from 200 to 299 cannot be decoded: the mutation
    ///   is applied.
    /// - The response is a web page where none was requested, or a redirect that is not followed,
    ///   such as the login page of a network. The mutation may have been applied, and is sent
    ///   again; see ``SanguineClient/Configuration/isAnswer``.
    /// - An earlier attempt may have reached the backend, and the response shows it: 404 or 410 to
    ///   a `DELETE`, or 409 or 422 with the code `already_exists` to a `POST` or `PUT`. The
    ///   mutation is applied.
    /// - Status 401: with ``SanguineClient/Configuration/refresh``, the token is renewed and the
    ///   request repeated; if it is rejected again, the mutation is sent again later. Without it,
    ///   nothing is sent until the user has signed in; see ``Outbox/resume()``.
    /// - Status 408, 425, 429, 503 or 511: the mutation was not applied. It is sent again later,
    ///   not before `Retry-After`.
    /// - Another status from 500 on, the code `operation_in_progress`, 409 with `Retry-After`, or
    ///   no response within a minute: the mutation may have been applied, and is sent again in the
    ///   same way, under the same key.
    /// - A network error, even from another network stack: a ``TransportError``, a `URLError`, a
    ///   `POSIXError` of a connection, a `CancellationError`, or an `NSError` with one of these as
    ///   its underlying error. The mutation may have been applied, and is sent again.
    /// - A ``ClassifiedError``, or a problem that ``SanguineClient/Configuration/errorBody``
    ///   classifies: the class takes precedence over the rules above. The mutation is sent again if
    ///   the class is ``ErrorClass/retryable`` or ``ErrorClass/waits``.
    /// - Any other status, and any other error of the app: the mutation is refused and its effects
    ///   are removed. It is in the tray with the error's text; see ``Outbox/refused``. If the
    ///   backend had answered one of its requests with success, ``Outbox/retry(_:)`` keeps its key.
    func send(_ request: MutationContext) async throws
}
