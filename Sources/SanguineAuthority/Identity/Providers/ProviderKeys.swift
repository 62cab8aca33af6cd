import SanguineModel

/// The cached keys of one identity provider.
///
/// Keys are fetched when the first token arrives, when the cached ones are no longer fresh, and
/// once when a token names an unknown key or was signed with another one, because the provider may
/// have rotated its keys. All callers wait for the same fetch. While the provider cannot be
/// reached, the last keys are used.
///
/// Invariants:
/// 1. At most one fetch runs at a time; it takes at most twice ``Limits/fetchTime``.
/// 2. A fetch begins at least ``Limits/interval`` after the previous one, or ``Limits/retry`` if
///    there are no keys yet. So the number of fetches does not depend on the number of tokens.
/// 3. Keys are replaced only by a response with at least one usable key.
///
/// Mutable state: all of it is guarded by the actor, because callers wait for a fetch.
actor ProviderKeys {
    /// The limits of fetching and caching keys.
    enum Limits {
        /// The time limit of one request.
        static let fetchTime = Duration.seconds(5)
        /// The time between the beginnings of two fetches.
        static let interval = Duration.seconds(30)
        /// The time between the beginnings of two fetches while there are no keys.
        static let retry = Duration.seconds(5)
        /// The time for which keys are fresh if the provider does not say.
        static let freshness = Duration.seconds(3_600)
        /// The permitted values of the provider's own freshness.
        static let freshnessRange = Duration.seconds(300) ... .seconds(86_400)
        /// The time for which keys are used while the provider cannot be reached: 7 days.
        static let staleness = Duration.seconds(7 * 86_400)
        /// The maximum size of a response in bytes.
        static let bytes = 1 << 16
    }

    /// The keys that may have signed a token.
    struct Candidates: Sendable {
        var keys: [ProviderKey]
        /// The number of the fetch that they are from.
        var fetch: Int
    }

    private struct Fetched {
        var keys: ProviderKeySet
        var number: Int
        var at: Timestamp
        var freshUntil: Timestamp

        func isFresh(_ now: Timestamp) -> Bool { at <= now && now < freshUntil }

        func isUsable(_ now: Timestamp) -> Bool {
            now < at + Limits.staleness && at - Limits.staleness < now
        }
    }

    private let provider: IdentityProvider
    private let server: any KeyServer
    private let clock: any WallClock
    private let delay: any Clock<Duration>
    private var fetched: Fetched?
    private var url: String?
    private var lastFetch: Timestamp?
    private var running: Task<Void, Never>?

    init(
        of provider: IdentityProvider,
        server: any KeyServer,
        clock: any WallClock,
        delay: any Clock<Duration>
    ) {
        self.provider = provider
        self.server = server
        self.clock = clock
        self.delay = delay
        url = provider.keys
    }

    /// Returns the keys that may have signed a token; empty if the provider has none.
    ///
    /// - Throws: `overloaded` if there are no keys and none can be fetched.
    func candidates(for token: IdentityToken) async throws(Problem) -> Candidates {
        if fetched?.isFresh(clock.now()) != true { await refresh() }
        if let found = known(token), !found.keys.isEmpty { return found }
        await refresh()
        guard let found = known(token) else {
            throw Problem(
                .overloaded,
                """
                The keys of the identity provider cannot be fetched. Send the request again after \
                'Retry-After'.
                """,
                retryAfter: Limits.retry.secondsRoundedUp
            )
        }
        return found
    }

    /// Returns the keys of a later fetch for a token that none of the earlier candidates has
    /// signed, because the provider may have replaced a key under the same id; `nil` if there was
    /// no later fetch.
    func candidates(
        for token: IdentityToken,
        after earlier: Candidates
    ) async -> Candidates? {
        if fetched?.number == earlier.fetch { await refresh() }
        guard let found = known(token), found.fetch != earlier.fetch else { return nil }
        return found
    }

    /// The usable keys for the token; `nil` if there are no usable keys at all.
    private func known(_ token: IdentityToken) -> Candidates? {
        guard let fetched, fetched.isUsable(clock.now()) else { return nil }
        return Candidates(
            keys: fetched.keys.keys(named: token.keyID, for: token.algorithm),
            fetch: fetched.number
        )
    }

    /// Waits for the running fetch, or for a new one if the last one is long enough ago.
    private func refresh() async {
        if let running { return await running.value }
        let now = clock.now()
        let pause = fetched?.isUsable(now) == true ? Limits.interval : Limits.retry
        // A clock that was set back does not postpone the next fetch.
        if let lastFetch, lastFetch <= now, now < lastFetch + pause { return }
        lastFetch = now
        // A task of its own: a caller that is cancelled does not cancel the fetch of the others.
        let task = Task { await self.fetch() }
        running = task
        await task.value
    }

    private func fetch() async {
        do {
            let (keys, freshness) = try await newKeys()
            let now = clock.now()
            let range = Limits.freshnessRange
            let bounded = min(max(freshness, range.lowerBound), range.upperBound)
            let number = (fetched?.number ?? 0) + 1
            fetched = Fetched(keys: keys, number: number, at: now, freshUntil: now + bounded)
        } catch {
            // A discovered address may have changed.
            url = provider.keys
            server.report("\(error)", of: provider.name)
        }
        running = nil
    }

    private func newKeys() async throws -> (ProviderKeySet, freshness: Duration) {
        let address = try await keysAddress()
        let response = try await get(address)
        guard let keys = await ProviderKeySet(response.body) else { throw KeyFetchError.noKeys }
        return (keys, response.freshness ?? Limits.freshness)
    }

    private func keysAddress() async throws -> String {
        if let url { return url }
        let response = try await get(provider.discovery)
        let document = try? JSONParser.parse(response.body).value
        guard let issuer = document?["issuer"]?.string, provider.issuers.contains(issuer) else {
            throw KeyFetchError.otherIssuer
        }
        guard let address = document?["jwks_uri"]?.string, IdentityProvider.isKeyURL(address) else {
            throw KeyFetchError.noAddress
        }
        url = address
        return address
    }

    private func get(_ address: String) async throws -> KeyServerResponse {
        let response = try await withThrowingTaskGroup(of: KeyServerResponse.self) {
            [server, delay] group in
            group.addTask { try await server.get(address, upTo: Limits.bytes) }
            group.addTask {
                try await delay.sleep(for: Limits.fetchTime)
                throw KeyFetchError.slow
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw KeyFetchError.slow }
            return first
        }
        guard response.status == 200 else { throw KeyFetchError.status(response.status) }
        guard response.body.count <= Limits.bytes else { throw KeyFetchError.tooLarge }
        return response
    }
}

/// The reason why a provider's keys could not be fetched.
enum KeyFetchError: Error, Hashable, CustomStringConvertible {
    case slow
    case status(Int)
    case tooLarge
    case noKeys
    case otherIssuer
    case noAddress
    case noServer

    var description: String {
        switch self {
        case .slow: "The provider did not respond in time."
        case .status(let status): "The provider responded with status \(status)."
        case .tooLarge: "The provider's response is larger than \(ProviderKeys.Limits.bytes) bytes."
        case .noKeys: "The provider's response contains no usable key."
        case .otherIssuer: "The discovery document has another issuer than the settings."
        case .noAddress: "The discovery document has no https URL of the keys."
        case .noServer: "The authority was created without a key server."
        }
    }
}
