public import SanguineModel

/// Manages accounts, sessions, balances, quotas, records and files.
///
/// An authority combines storage, rules and time: each method creates a command, performs it in the
/// storage, and returns the outcome. The rules themselves are in the pure `…Commands` types.
///
/// ```swift
/// let authority = Authority(storage: MemoryStorage(), keys: SigningKeys())
/// let guest = try await authority.guest(request)
/// ```
///
/// Every method throws ``Problem``, ready for the wire. An overloaded storage is reported as
/// `overloaded` (503), a failed one as `internal_fault` (500).
public final class Authority: Sendable {
    /// The rules.
    public let settings: AuthoritySettings
    /// Issues and verifies access tokens.
    public let tokens: AccessTokens
    /// The storage.
    public let storage: any Storage

    let clock: any WallClock
    let keys: SigningKeys
    let encoder: ResponseEncoder
    let cursors: CursorSeal
    let identityTokens: IdentityTokens
    let listeners = HeadListeners()
    let listListeners = ListListeners()
    package let blobSweep = BlobSweep()
    let removals = RemovalTurns()
    let incompleteIndexes = IncompleteIndexes()
    /// The pages of lists that many accounts read.
    let lists: ListCache
    /// The collections whose lists other accounts than the owner read.
    let sharedCollections: Set<String>
    let passwords = PasswordHasher()
    let pendingAttempts = PendingAttempts()
    let emailSecrets: EmailSecrets
    /// The attempts to redeem codes of other devices: 10 of an address per minute.
    let moveAttempts = AttemptLimiter(perAddress: 10)
    let merges = MergeListeners()
    /// The switches that all apps receive.
    package let switches = ServedSwitches()
    /// Verifies the App Store's signatures; `nil` if no app is configured.
    let store: AppStoreVerifier?
    let challenges: AttestationChallenges
    /// Verifies attestations; `nil` if none are accepted.
    let attestationVerifier: (any AttestationVerifier)?
    let deviceCheckClient: (any DeviceCheckClient)?
    let images: any ImageProcessor

    /// Creates an authority over a storage.
    ///
    /// - Parameters:
    ///   - storage: The storage. The authority does not close it.
    ///   - keys: The secrets for tokens.
    ///   - settings: The rules.
    ///   - clock: The clock.
    ///   - keyServer: Fetches the keys of ``AuthoritySettings/identityProviders``; `nil` if their
    ///     tokens cannot be verified.
    ///   - attestationVerifier: Verifies attestations of devices. Default: ``AppAttest`` with the
    ///     app of ``AuthoritySettings/attestation``.
    ///   - deviceCheck: Asks Apple's DeviceCheck. Default: `nil`; its tokens are refused.
    ///   - images: Cleans and scales images. Default: ``UnscaledImages``.
    ///   - delay: The clock for timeouts.
    public init(
        storage: any Storage,
        keys: SigningKeys,
        settings: AuthoritySettings = AuthoritySettings(),
        clock: any WallClock = SystemWallClock(),
        keyServer: (any KeyServer)? = nil,
        attestationVerifier: (any AttestationVerifier)? = nil,
        deviceCheck: (any DeviceCheckClient)? = nil,
        images: any ImageProcessor = UnscaledImages(),
        delay: any Clock<Duration> = ContinuousClock()
    ) {
        self.storage = storage
        self.keys = keys
        self.settings = settings
        self.clock = clock
        encoder = ResponseEncoder(unit: settings.unit)
        cursors = CursorSeal(keys: keys)
        lists = ListCache(limit: settings.listCacheBytes, clock: clock)
        sharedCollections = settings.schema.sharedCollections
        emailSecrets = EmailSecrets(keys: keys)
        identityTokens = IdentityTokens(
            settings.identityProviders,
            server: keyServer ?? NoKeyServer(),
            clock: clock,
            delay: delay
        )
        challenges = AttestationChallenges(keys: keys)
        self.attestationVerifier =
            attestationVerifier ?? settings.attestation?.appAttest.map { AppAttest($0) }
        deviceCheckClient = deviceCheck
        self.images = images
        store = settings.appStore.flatMap { AppStoreVerifier($0) }
        tokens = AccessTokens(keys: keys, settings: settings, clock: clock, over: storage)
    }

    /// Calls the closure after every commit that adds to an account's feed.
    ///
    /// The closure runs on the task that requested the change, with the account and its newest
    /// number, and must return quickly. Changes of one account may be reported out of order: the
    /// largest number counts. A commit with an unknown outcome is not reported, so a listener that
    /// waits should check again from time to time.
    public func onHead(_ listener: @escaping @Sendable (Identifier, Int64) -> Void) {
        listeners.add(listener)
    }

    /// Calls the closure after every commit that changes lists which other accounts than the owner
    /// read.
    ///
    /// It runs like that of ``onHead(_:)``. A commit with an unknown outcome is not reported.
    package func onLists(_ listener: @escaping @Sendable (ChangedLists) -> Void) {
        listListeners.add(listener)
    }

    /// Performs a command, and reports storage errors as problems.
    ///
    /// - Parameters:
    ///   - command: The command.
    ///   - isForDeleted: Whether to perform it for a deleted account too. Default: no; it is
    ///     refused with `not_found`.
    /// - Returns: The outcome.
    /// - Throws: The problem of the command or the storage.
    func perform<Outcome>(
        _ command: Command<Outcome>,
        evenIfDeleted isForDeleted: Bool = false
    ) async throws(Problem) -> Outcome {
        let command = isForDeleted ? command : command.refusingDeleted
        guard !listeners.isEmpty || !sharedCollections.isEmpty else {
            return try await performed(command)
        }
        let noted = try await performed(
            command.recordingHeads(sharedCollections, settings.schema)
        )
        committed(noted.heads, noted.lists)
        return noted.outcome
    }

    /// Notifies lists and listeners of a commit, before it is acknowledged.
    func committed(_ heads: [Identifier: Int64], _ changed: ChangedLists) {
        lists.committed(changed.collections, by: heads.keys)
        listeners.notify(heads)
        listListeners.notify(changed)
    }

    private func performed<Outcome>(_ command: Command<Outcome>) async throws(Problem) -> Outcome {
        do {
            let command = settings.recordsEvents ? command : command.withoutEvents
            return try await storage.perform(command).get()
        } catch let error as StorageError {
            if case .unknownOutcome = error { lists.anythingChanged() }
            throw Problem(error)
        } catch let problem as Problem {
            throw problem
        } catch {
            preconditionFailure("Storage throws StorageError, commands throw Problem: \(error)")
        }
    }

    /// Repeats a look-up and the command that depends on it, until what was looked up has not
    /// changed in between.
    ///
    /// - Parameter attempt: Looks up, and performs the command; returns `nil` if another request
    ///   has changed what was looked up.
    /// - Returns: The value of the first attempt that has one.
    /// - Throws: The problem of an attempt; `overloaded` after ``lookUpAttempts`` attempts, each of
    ///   which another request has overtaken.
    func lookingAgain<Value>(
        _ attempt: () async throws(Problem) -> Value?
    ) async throws(Problem) -> Value {
        for _ in 0..<Self.lookUpAttempts {
            if let value = try await attempt() { return value }
        }
        throw Problem(
            .overloaded,
            "Send the request again: others keep changing what it depends on.",
            retryAfter: 1
        )
    }

    /// The number of attempts of ``lookingAgain(_:)``: 8.
    private static let lookUpAttempts = 8

    /// Reads from the storage, and reports storage errors as problems.
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
