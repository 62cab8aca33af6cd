import Logging
import SanguineModel
import Synchronization

/// Switches between users: it holds the current user's scope and the outboxes of former users.
///
/// With a Sanguine server, the session identifies the user; without one, the app does, by
/// ``signIn(as:)``. Both are an ``AccountKey`` here, and everything else is the same.
///
/// Changes run one after the other. When one has returned, the previous user's data is no longer
/// visible, sent or on disk, except for the operations in their outbox that wait for their return.
///
/// Mutable state: `scope`, protected by its mutex, during which no call is made; the order of the
/// changes, by `changing`, which is held during disk access and calls to the client's parts, but
/// not during calls of the app's code; and the order of the searches for operations of merged
/// guests, by `takingOver`.
package final class UserSwitcher: Sendable {
    /// Logged after a user has left, and before the next one begins.
    package static let changes = "The user changes."

    /// Replaces a user whose scope has ended with the next one; `nil` if that is not possible.
    ///
    /// - Returns: The next user, and the work to be done outside of locks.
    private typealias Succession =
        (_ former: UserScope, _ owner: AccountKey?) -> (UserScope, @Sendable () -> Void)?

    let services: ClientServices
    private let scope: Mutex<UserScope>
    private let retainedOutboxes: RetainedOutboxes
    private let mergedGuests: MergedGuests
    private let changing = Mutex(())
    private let isClosed = Mutex(false)
    /// The last search for operations of merged guests.
    private let takingOver = Mutex<Task<Void, Never>?>(nil)
    /// Follows the device's settings, until the client is closed.
    private let deviceFollowings = Mutex<[ObservationToken]>([])
    private let authorizers: (any AuthorizerSource)?

    /// Restores the user of an earlier process.
    ///
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(_ services: ClientServices, authorizers: (any AuthorizerSource)? = nil) throws(StoreError)
    {
        self.services = services
        self.authorizers = authorizers
        let first = try Self.first(services, authorizers?.first())
        scope = Mutex(first)
        retainedOutboxes = RetainedOutboxes(services)
        mergedGuests = MergedGuests(services: services)
        services.queries.entries.onSettled { [weak self] in
            self?.current.mutations.settling.settled($0)
        }
        services.records.observe { [weak self] in self?.current.records }
        services.queries.entries.observation.onCarried { [weak self] in self?.current.follow() }
        services.switches.onChange { [weak self] in self?.current.switched() }
        retainedOutboxes.sweep()
        retainedOutboxes.takeOver(for: first)
        begin(first)()
        first.start()
        followDevice()
        askForMergedGuests()
    }

    /// Lets each user's account follow the device's settings.
    private func followDevice() {
        let (lifecycle, locale) = (
            services.configuration.lifecycle, services.configuration.deviceLocale
        )
        let follow: @Sendable () -> Void = { [weak self] in
            guard let self, !isClosed.withLock({ $0 }) else { return }
            current.followDevice()
        }
        let followings = [
            locale.timeZone.follow(follow),
            locale.language.follow(follow),
            lifecycle.isForeground.follow { [weak self] in
                guard lifecycle.isForeground.value else { return }
                locale.refresh()
                follow()
                self?.mergedGuests.askAgain()
                self?.askForMergedGuests()
            },
            services.configuration.connectivity.isOnline.follow { [weak self] in
                self?.askForMergedGuests()
            },
        ]
        deviceFollowings.withLock { $0 = followings }
    }

    /// Returns the user of an earlier process.
    private static func first(
        _ services: ClientServices,
        _ authorizer: (any Authorizer)?
    ) throws(StoreError) -> UserScope {
        guard let folders = services.folders else {
            return try UserScope(services, nil, authorizer: authorizer)
        }
        do {
            let (folder, named) = try folders.currentUser()
            let user = try UserScope(services, folder, named: named, authorizer: authorizer)
            let outbox = user.outbox.file
            guard try hasLeft(user, named) else { return user }
            _ = user.outbox.end(.closed)
            outbox.close()
            user.store.close()
            return try UserScope(services, try folders.begin(after: folder), authorizer: authorizer)
        } catch let error as StoreError {
            throw error
        } catch {
            services.log.failure(
                "\(error)",
                "The owner of the files cannot be read. Nothing is stored until the next launch."
            )
            return try UserScope(services, nil, authorizer: authorizer)
        }
    }

    /// Whether the current folder belongs to another user, who has left without that being stored.
    private static func hasLeft(_ user: UserScope, _ named: AccountKey?) throws -> Bool {
        let outbox = user.outbox.file
        // An outbox that cannot be read sends nothing either.
        let owner = outbox.isThere ? try? outbox.owner() : nil
        guard let named else { return owner != nil && owner != user.owner }
        // An outbox names its owner once its user has left. Otherwise, the app may use a Sanguine
        // server now.
        guard owner == nil, user.owner != named else { return owner != nil }
        if outbox.isThere { try outbox.setOwner(named) }
        return true
    }

    /// The current user.
    var current: UserScope { scope.withLock { $0 } }

    /// Runs a closure for the current user; again for the next one if the user changes in the
    /// meantime.
    func perform<Value>(
        _ body: (UserScope) throws(SanguineError) -> Value
    ) throws(SanguineError) -> Value {
        if let refusal = services.configuration.refusal { throw refusal }
        while true {
            let user = current
            do throws(SanguineError) {
                return try body(user)
            } catch {
                guard error == .userChanged else { throw error }
                changing.withLock { _ in }
                guard current !== user else { throw error }
            }
        }
    }

    // MARK: - Changes

    /// Signs in the user that the app names.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if the user cannot be stored,
    ///   ``SanguineError/closed``.
    func signIn(as owner: AccountKey) throws(SanguineError) {
        while true {
            guard !isClosed.withLock({ $0 }) else { throw .closed }
            let user = current
            switch user.owner {
            case owner: return
            case nil: if try join(user, owner) { return }
            default: _ = switchUser(from: user, to: nil, authorizers?.next(nil))
            }
        }
    }

    /// Names a user who was not known yet and who keeps everything.
    ///
    /// - Returns: Whether they are still the current user, and were still unnamed.
    private func join(_ user: UserScope, _ owner: AccountKey) throws(SanguineError) -> Bool {
        let isDone = try changing.withLock { _ throws(SanguineError) in
            guard current === user, user.owner == nil, !isClosed.withLock({ $0 }) else {
                return false
            }
            try user.session.check()
            do {
                // Done first, so that a process that ends here leaves files that belong to this
                // user.
                if let folder = user.folder { try folder.folders.name(owner, at: folder) }
            } catch {
                throw .store(.writeFailed("the signed-in user: \(error)"))
            }
            try user.session.name(owner)
            retainedOutboxes.takeOver(for: user)
            return true
        }
        guard isDone else { return false }
        user.signedIn(nil, isFirst: true)
        services.queries.userIsKnown()
        return true
    }

    /// Signs the user out.
    ///
    /// All local work is done before this suspends. Then the server is notified, once.
    nonisolated(nonsending) func signOut(_ keeping: SanguineClient.Keeping) async {
        let former = current
        let next = authorizers?.next(nil)
        guard let session = switchUser(from: nil, to: nil, next, keeping: keeping) else { return }
        await former.session.notifyServer(ofEnd: session)
    }

    /// Ends a user whose sessions the server has ended already.
    func end(_ user: UserScope, keeping: SanguineClient.Keeping = .nothing) {
        _ = switchUser(from: user, to: nil, authorizers?.next(nil), keeping: keeping)
    }

    /// Removes all data of all users and of the device, and continues without a user.
    ///
    /// All local work is done before this suspends. Then the server is notified, once.
    nonisolated(nonsending) func erase() async throws(SanguineError) {
        let leaving = current
        var failure: SanguineError? = .closed  // Unless the change happens.
        let session = switchUser(from: nil) { former, _ in
            failure = nil
            return eraseFiles(of: former, failure: &failure)
        }
        if let session { await leaving.session.notifyServer(ofEnd: session) }
        if let failure { throw failure }
    }

    /// Replaces the current user with one of this account, for tests.
    func switchUser(to account: Identifier?) {
        _ = switchUser(from: nil, to: nil, authorizers?.next(account))
    }

    /// Continues when the user's account has become known, or they have signed in again.
    func signedIn(_ user: UserScope, _ account: Identifier, isFirst: Bool) {
        if isFirst {
            changing.withLock { _ in
                guard current === user, !isClosed.withLock({ $0 }) else { return }
                retainedOutboxes.takeOver(for: user)
            }
        }
        user.signedIn(account, isFirst: isFirst)
        if isFirst { askForMergedGuests() }
    }

    /// Continues with a session that the server has issued for the user's credentials.
    ///
    /// - If no account was known, the user takes over everything on the device.
    /// - If it is the same account, nothing changes but the tokens.
    /// - If the guest has become a part of the account, the scope stays: values, operations, calls
    ///   and files.
    /// - Otherwise the users change, as at a sign-out.
    ///
    /// - Parameters:
    ///   - session: The session.
    ///   - user: The user who has sent the credentials.
    /// - Returns: The former user's session, to be ended on the server; `nil` if there is none.
    /// - Throws: ``SanguineError/userChanged`` if the user has left in the meantime.
    func adopt(
        _ session: StoredSession,
        for user: UserScope
    ) throws(SanguineError) -> StoredSession? {
        let former = user.session.account
        if let former, former != session.account {
            let fault = services.configuration.plantedFault
            guard session.mergedFrom == former || fault == .adoptsAnyAccount else {
                guard current === user else { throw .userChanged }
                return switchUser(from: user, to: session, nil)
            }
            try merge(user, into: session, from: former)
            return nil
        }
        try changing.withLock { _ throws(SanguineError) in
            guard current === user, !isClosed.withLock({ $0 }) else { throw .userChanged }
            try user.session.adopt(session)
            if former == nil { retainedOutboxes.takeOver(for: user) }
        }
        user.signedIn(session.account, isFirst: former == nil)
        return nil
    }

    /// Continues with another account, of which the guest has become a part.
    private func merge(
        _ user: UserScope,
        into session: StoredSession,
        from former: Identifier
    ) throws(SanguineError) {
        try changing.withLock { _ throws(SanguineError) in
            guard current === user, !isClosed.withLock({ $0 }) else { throw .userChanged }
            try user.leaveFeed(of: former)
            try user.session.adopt(session)
            try user.leaveFeed(of: former)
            retainedOutboxes.takeOver(for: user)
        }
        user.moved(to: session.account, from: former)
        askForMergedGuests()
    }

    /// Ends all work.
    func close() {
        // No user change begins after this. The rest calls the app's code, so it holds no lock.
        let isFirst = changing.withLock { _ in
            isClosed.withLock { isClosed in
                defer { isClosed = true }
                return !isClosed
            }
        }
        guard isFirst else { return }
        let followings = deviceFollowings.withLock { followings in
            defer { followings = [] }
            return followings
        }
        withExtendedLifetime(followings) {}  // Released here, with no lock held.
        let user = current
        let ended = user.end(.closed)
        services.close()
        ended.tell()
        user.outbox.file.close()
        user.store.close()
        retainedOutboxes.close()
    }

    /// Replaces the current user.
    ///
    /// - Parameters:
    ///   - expected: The user to replace; nothing happens if they have left already. Default: the
    ///     current user.
    ///   - session: The session that the next user begins with.
    ///   - authorizer: Replaces the next user's session in tests.
    ///   - heir: The account that receives the waiting operations: a guest gets a new account after
    ///     the device's identity was lost. Default: none.
    ///   - keeping: The data that is kept for the user who leaves. Default: waiting operations, for
    ///     90 days.
    /// - Returns: The session to end on the server, if there was one.
    private func switchUser(
        from expected: UserScope?,
        to session: StoredSession?,
        _ authorizer: (any Authorizer)?,
        heir: AccountKey? = nil,
        keeping: SanguineClient.Keeping = .waitingOperations()
    ) -> StoredSession? {
        switchUser(from: expected) { former, owner in
            // Done first, so that a later failure cannot assign the operations to another user.
            let owner = heir ?? owner
            retainedOutboxes.writeOwner(owner, of: former)
            let next = scope(after: former, session, authorizer)
            // Companions write nothing after this.
            let waits = retainedOutboxes.add(former, owner, keeping)
            guard let next else { return nil }
            retainedOutboxes.takeOver(for: next)
            let tell = begin(next)
            former.store.close()
            retainedOutboxes.remove(former, keepingOutbox: waits)
            return (next, tell)
        }
    }

    /// Ends the current user, and makes another user current.
    private func switchUser(from expected: UserScope?, _ succeed: Succession) -> StoredSession? {
        var after: @Sendable () -> Void = {}
        let session = changing.withLock { _ -> StoredSession? in
            let former = current
            guard !isClosed.withLock({ $0 }), expected == nil || expected === former else {
                return nil
            }
            let (owner, wasActive) = (former.owner, former.feed.isActive)
            let ended = former.end(.userChanged)
            services.configuration.logger.debug("\(Self.changes)")
            // The account may have become known just now.
            let last = ended.session.map { AccountKey($0.account) } ?? owner
            guard let (next, tell) = succeed(former, last) else {
                after = ended.tell
                return ended.session
            }
            // Data of the former user is no longer visible when the next user is.
            scope.withLock { $0 = next }
            services.metrics.notifyObserver(next.owner == nil ? .signedOut : .userChanged)
            after = { [self] in
                tell()
                ended.tell()
                if current === next { next.start(isActive: wasActive) }
                services.records.userChanged()
                services.outboxNotifier.changed()
                services.userChanged()
            }
            return ended.session
        }
        after()
        return session
    }

    /// Makes a user's part of the cache the current one.
    private func begin(
        _ user: UserScope,
        device cacheScope: CacheScope? = nil
    ) -> @Sendable () -> Void {
        user.session.onChange(
            SessionKeeper.Handlers(
                signedIn: { [weak self, weak user] account, isFirst in
                    guard let self, let user else { return }
                    signedIn(user, account, isFirst: isFirst)
                },
                replaced: { [weak self, weak user] session, isSameGuest in
                    guard let self, let user else { return }
                    let heir = isSameGuest ? AccountKey(session.account) : nil
                    _ = switchUser(from: user, to: session, nil, heir: heir)
                },
                merged: { [weak self, weak user] session in
                    guard let self, let user, let former = session.mergedFrom else { return }
                    do throws(SanguineError) {
                        try merge(user, into: session, from: former)
                    } catch {
                        services.log.failure("\(error)", "The guest's files could not be kept.")
                        // Their operations are kept: they are the account's now.
                        let heir = AccountKey(session.account)
                        _ = switchUser(from: user, to: session, nil, heir: heir)
                    }
                },
                deleted: { [weak self, weak user] in
                    guard let self, let user else { return }
                    end(user)
                },
                answered: { [weak user] account in user?.locale.received(account) }
            )
        )
        services.currentUser.set(user.authorizer)
        return services.switchUser(to: user.cacheScope, device: cacheScope)
    }

    private func scope(
        after former: UserScope,
        _ session: StoredSession?,
        _ authorizer: (any Authorizer)?
    ) -> UserScope? {
        var folder: UserFolders.Folder?
        if let folders = services.folders, let old = former.folder {
            do {
                folder = try folders.begin(after: old)
            } catch {
                services.log.failure("\(error)", "A sign-out could not be written to disk.")
                folder = folders.next(after: old)
            }
        }
        do {
            return try UserScope(
                services,
                folder,
                floor: former.outbox.file.nextFloor,
                session: session,
                isAfterSignOut: true,
                authorizer: authorizer
            )
        } catch {
            services.log.failure("\(error)", "The files of the next user could not be created.")
            return nil
        }
    }

    /// Removes the files of all users, and creates the scope of the next one.
    private func eraseFiles(
        of user: UserScope,
        failure: inout SanguineError?
    ) -> (UserScope, @Sendable () -> Void)? {
        retainedOutboxes.erase(with: user)
        user.store.close()
        services.endCacheScope()
        var folder: UserFolders.Folder?
        if let folders = services.folders {
            let erased = folders.erase(after: user.folder)
            folder = erased.folder
            failure = erased.failure.map { .store(.notErased($0)) }
        }
        do throws(SanguineError) { try services.vault.erase() } catch { failure = failure ?? error }
        do {
            let fresh = try services.freshCacheScope()
            let next = try UserScope(
                services,
                folder,
                floor: user.outbox.file.nextFloor,
                isAfterSignOut: true,
                authorizer: authorizers?.next(nil)
            )
            return (next, begin(next, device: fresh))
        } catch {
            services.log.failure("\(error)", "The files of the next user could not be created.")
            failure = failure ?? .store(error)
            return nil
        }
    }

    // MARK: - Former users

    /// Moves to the user the operations of guests that have become parts of the user's account, as
    /// soon as the server has confirmed that.
    ///
    /// The ids of the operations stay the same, so that those which the server received before the
    /// merge take effect once. Concurrent callers run one after the other, so that the operations
    /// are there when any of them returns.
    func takeOverMergedGuests(for user: UserScope) async {
        let task = takingOver.withLock { last in
            let next = Task { [former = last, weak self] in
                await former?.value
                await self?.takeOverNow(for: user)
            }
            last = next
            return next
        }
        await task.value
    }

    private func takeOverNow(for user: UserScope) async {
        let account = user.authorizer.account
        let guests = retainedOutboxes.accounts(besides: user)
        guard let confirmed = await mergedGuests.newlyConfirmed(guests, for: user),
            !confirmed.isEmpty
        else {
            return
        }
        let isDone = changing.withLock { _ in
            guard current === user, user.authorizer.account == account,
                !isClosed.withLock({ $0 })
            else { return false }
            return retainedOutboxes.takeOver(for: user, ofGuests: confirmed)
        }
        guard isDone else { return }
        // This calls the app's code, so no lock is held.
        user.outbox.loadMore()
        user.outbox.resume()
        user.mutations.settling.refetchAll()
    }

    private func askForMergedGuests() {
        let user = current
        guard !isClosed.withLock({ $0 }), user.authorizer.account != nil,
            !retainedOutboxes.accounts(besides: user).isEmpty
        else { return }
        Task { [weak self] in await self?.takeOverMergedGuests(for: user) }
    }

    /// The number of operations of former users that are kept until those users return.
    func countLeft() -> Int { retainedOutboxes.count() }

    /// The number of operations on the app's own backend that have no known user.
    func countUnclaimed() -> Int { retainedOutboxes.countUnclaimed() }

    /// Assigns these operations to the current user.
    func claim() throws(SanguineError) {
        let user = current
        try user.outbox.open(.remote)
        try changing.withLock { _ throws(SanguineError) in
            guard current === user else { throw .userChanged }
            try retainedOutboxes.assignUnclaimed(to: user)
        }
        // This calls the app's code, so no lock is held.
        user.outbox.loadMore()
        user.outbox.resume()
        user.mutations.settling.refetchAll()
    }

    /// Deletes these operations.
    func discardUnclaimed() throws(SanguineError) {
        try changing.withLock { _ throws(SanguineError) in try retainedOutboxes.discardUnclaimed() }
    }
}

/// Replaces the sessions of a client, as in tests.
protocol AuthorizerSource: Sendable {
    /// Returns the authorizer of the user at the client's creation.
    func first() -> any Authorizer

    /// Returns the authorizer of the next user.
    func next(_ account: Identifier?) -> any Authorizer
}
