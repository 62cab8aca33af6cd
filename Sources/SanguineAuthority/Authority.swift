public import SanguineModel

/// Knows who the user is, what they may still spend, and what they did.
///
/// An authority puts together storage, rules and time: each method makes a command, lets the
/// storage perform it, and returns what it came to. The rules themselves are in the `…Commands`
/// types, which are pure.
///
/// ```swift
/// let authority = Authority(storage: MemoryStorage(), keys: SigningKeys())
/// let guest = try await authority.guest(request)
/// ```
///
/// Every method throws ``Problem``, ready for the wire. A storage that is overloaded is
/// `overloaded` (503); one that failed is `internal_fault` (500).
public final class Authority: Sendable {
    /// The rules.
    public let settings: AuthoritySettings
    /// Access tokens.
    public let tokens: AccessTokens
    /// Where things are kept.
    public let storage: any Storage

    let clock: any WallClock
    let keys: SigningKeys
    let encoder: AnswerEncoder
    let cursors: CursorSeal
    let listeners = HeadListeners()
    let blobSweep = BlobSweep()
    let incompleteIndexes = IncompleteIndexes()

    /// Creates an authority over a storage.
    ///
    /// - Parameters:
    ///   - storage: Where things are kept. The authority does not close it.
    ///   - keys: The secrets that tokens are made with.
    ///   - settings: The rules.
    ///   - clock: The present.
    public init(
        storage: any Storage,
        keys: SigningKeys,
        settings: AuthoritySettings = AuthoritySettings(),
        clock: any WallClock = SystemWallClock()
    ) {
        self.storage = storage
        self.keys = keys
        self.settings = settings
        self.clock = clock
        encoder = AnswerEncoder(unit: settings.unit)
        cursors = CursorSeal(keys: keys)
        tokens = AccessTokens(keys: keys, settings: settings, clock: clock, over: storage)
    }

    /// Calls the closure after every commit that has added to an account's feed, whatever it was.
    ///
    /// It is called on the task that asked for the change, with the account and the newest number
    /// that the change took, and must return soon. Changes of one account may be told in another
    /// order than they were made: the largest number counts. What no answer tells is not told
    /// either: a listener that waits looks again from time to time.
    public func onHead(_ listener: @escaping @Sendable (Identifier, Int64) -> Void) {
        listeners.add(listener)
    }

    /// Performs a command, with storage errors as problems.
    func perform<Outcome>(_ command: Command<Outcome>) async throws(Problem) -> Outcome {
        guard !listeners.isEmpty else { return try await performed(command) }
        let noted = try await performed(command.noted)
        listeners.tell(noted.heads)
        return noted.outcome
    }

    private func performed<Outcome>(_ command: Command<Outcome>) async throws(Problem) -> Outcome {
        do {
            return try await storage.perform(command).get()
        } catch let error as StorageError {
            throw Problem(error)
        } catch let problem as Problem {
            throw problem
        } catch {
            preconditionFailure("Storage throws StorageError, commands throw Problem: \(error)")
        }
    }

    /// Reads from the storage, with storage errors as problems.
    func read<Value>(
        _ body: (any Storage) async throws(StorageError) -> Value
    ) async throws(Problem) -> Value {
        do {
            return try await body(storage)
        } catch {
            throw Problem(error)
        }
    }
}

extension Problem {
    /// What a client is told when the storage could not do it.
    init(_ error: StorageError) {
        switch error {
        case .overloaded(let seconds):
            self.init(
                .overloaded,
                "Send the request again after 'Retry-After', with the same key.",
                retryAfter: seconds
            )
        case .closed:
            self.init(
                .overloaded,
                "The server is shutting down: send the request again, with the same key.",
                retryAfter: 1
            )
        case .full, .readOnly:
            self.init(
                .overloaded,
                """
                The server's disk takes nothing now, and nothing was changed: send the request \
                again later, with the same key.
                """,
                retryAfter: 60
            )
        case .damaged:
            self.init(
                .overloaded,
                """
                The server's data is damaged and takes no changes until its operator has repaired \
                it. Nothing was changed: send the request again later, with the same key.
                """,
                retryAfter: 60
            )
        case .failed, .unknownOutcome:
            // The reason goes to the log, not to the client: it may name files.
            self.init(
                .internalFault,
                "Send the request again, with the same key: it takes effect once."
            )
        }
    }
}
