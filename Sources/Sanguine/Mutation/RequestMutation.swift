public import SanguineModel

/// A write to any backend that is visible before it is sent.
///
/// ```swift
/// struct Like: RequestMutation {
///     static let name = "post.like"
///     let post: String
///     var lane: String { post }
///
///     func effects(on view: inout MutationEffects) {
///         view.update(.post(post)) { $0.likes += 1 }
///     }
///
///     func send(_ request: MutationRequest) async throws {
///         try await request.post("posts/\(post)/like")
///     }
/// }
///
/// try client.perform(Like(post: post.id))
/// ```
///
/// Its members are what is kept on disk, as JSON: numbers and dates come back as they were, to the
/// last bit. It is an intent, never a copy of a value: its
/// effects are run again over each newer value until the backend's own has them in it.
///
/// Whatever refers to an id that is still a temporary one belongs into the lane of what creates it.
/// One that undoes or replaces others which have not been sent conforms to
/// `Superseding`.
public protocol RequestMutation: Mutation {
    /// Says what it changes in what is shown.
    ///
    /// Called when it is performed, and again after a restart. The changes themselves are called
    /// over each new value, on any thread, and see nothing but the value and the members.
    func effects(on view: inout MutationEffects)

    /// Sends it, with requests that carry its id as their `Idempotency-Key`.
    ///
    /// Called until the backend has answered: an answer that was lost is asked for again, in a
    /// later process if need be. What it then does:
    ///
    /// - It returns, or the answer of a status from 200 to 299 cannot be decoded: it is done.
    /// - The answer is a web page where none was asked for, or a redirect that is not followed: the
    ///   login page of a network, say. It may be done, and is sent again; see
    ///   ``SanguineClient/Configuration/isAnswer``.
    /// - An earlier sending may have reached the backend, and this one shows it: a `DELETE` by 404
    ///   or 410, a `POST` or `PUT` by 409 or 422 with the code `already_exists`. It is done.
    /// - Status 401: with ``SanguineClient/Configuration/refresh`` the token is renewed, and the
    ///   request made again; if that is not accepted either, it is sent again after a while.
    ///   Without, nothing is sent until somebody has signed in; see ``Outbox/resume()``.
    /// - Status 408, 425, 429 or 503: it was not done, and is sent again after a while, not before
    ///   `Retry-After`.
    /// - Another status from 500 on, code `operation_in_progress`, 409 with `Retry-After`, or no
    ///   answer within a minute: it may be done, and is sent again likewise, under the same key.
    /// - An error of the network, also of another stack than the client's: a ``TransportError``,
    ///   a `URLError`, a `POSIXError` of a connection, a `CancellationError`, or an `NSError` with
    ///   one of these as its underlying error. It may be done, and is sent again.
    /// - A ``ClassifiedError``, or a problem whose class ``SanguineClient/Configuration/errorBody``
    ///   says: as its class has it, before what is said above. It is sent again if that is
    ///   ``ErrorClass/retryable`` or ``ErrorClass/waits``.
    /// - Any other status, and any other error of the app's own: it is refused, its effects go, and
    ///   it is in the tray with the error's text; see ``Outbox/refused``. If the backend had
    ///   answered a request of it with success before, ``Outbox/retry(_:)`` keeps its key.
    func send(_ request: MutationRequest) async throws
}
