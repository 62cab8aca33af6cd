import SanguineModel

/// Proves to the Sanguine server who asks.
///
/// Whoever implements it changes ``epoch`` first and then, before the sign-out or sign-in returns,
/// calls ``QueryCache/adopt(_:)``.
protocol Authorizer: Sendable {
    /// A token that is valid as far as is known; signs in first if need be.
    ///
    /// - Throws: ``SanguineError/userChanged`` if the epoch is over: what was begun before a
    ///   sign-out signs nobody in after it.
    func accessToken(for epoch: SessionEpoch) async throws(SanguineError) -> String

    /// Returns a token after the server has answered 401 to this one: refreshes once, for all.
    ///
    /// - Throws: As ``accessToken(for:)`` does.
    func rejected(
        _ token: String,
        for epoch: SessionEpoch
    ) async throws(SanguineError) -> String

    /// Whose data may be seen now. Synchronous, and never goes back.
    var epoch: SessionEpoch { get }
}

/// A stretch of time in which one user is at the device.
///
/// What was asked for in an earlier epoch is refused in a later one (a late answer must not show
/// one user's data to another). Epochs are compared by ``number`` alone: a user who becomes known,
/// as a guest does at the first call, gets an ``account`` and stays in the same epoch.
struct SessionEpoch: Hashable, Sendable {
    /// Rises whenever data from before must not be seen after.
    ///
    /// Counts from 0 in each process.
    var number: UInt64
    /// The account, once there is one.
    var account: Identifier?

    /// Before anybody is known.
    static let first = SessionEpoch(number: 0, account: nil)

    /// Whose rows on disk may be read: the account's id, or empty for nobody's.
    var owner: String { account?.description ?? "" }
}
