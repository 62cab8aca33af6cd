import Logging
import SanguineModel
import Synchronization

/// Who is there: the present user's scope, and what users who have left wait to send.
///
/// Who the user is, their session with the Sanguine server says; without a server the app does, by
/// ``signIn(as:)``. Both are an ``Owner`` here, and everything else is the same.
///
/// Changes come one after the other. When one has returned, nothing of the user before can be seen,
/// is sent, or is on disk, but what waits in their outbox for their return.
///
/// Mutable state: `scope`, by its mutex, held over nothing; and the order of the changes, by
/// `changing`, which is held over the disk and over the parts of the client, and not over the app's
/// code.
package final class Users: Sendable {
    /// Logged when a user has gone, and before the next one is there.
    package static let changes = "The user changes."

    /// Puts the next user in the place of one who has been ended; `nil` if that cannot be.
    ///
    /// - Returns: The next one, and what is to be done under no lock.
    private typealias Succession =
        (_ former: UserScope, _ owner: Owner?) -> (UserScope, @Sendable () -> Void)?

    let device: Device
    private let scope: Mutex<UserScope>
    private let departed: FormerUsers
    private let changing = Mutex(())
    private let isClosed = Mutex(false)
    private let authorizers: (any AuthorizerSource)?

    /// Restores the user whom an earlier process has left.
    ///
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(_ device: Device, authorizers: (any AuthorizerSource)? = nil) throws(StoreError) {
        self.device = device
        self.authorizers = authorizers
        let first = try Self.first(device, authorizers?.first())
        scope = Mutex(first)
        departed = FormerUsers(device)
        device.queries.entries.onSettled { [weak self] in
            self?.present.mutations.settling.settled($0)
        }
        device.records.observe { [weak self] in self?.present.records }
        device.queries.entries.observation.onCarried { [weak self] in self?.present.follow() }
        departed.sweep()
        departed.takeOver(for: first)
        begin(first)()
        first.start()
    }

    /// The user whom an earlier process has left.
    private static func first(
        _ device: Device,
        _ authorizer: (any Authorizer)?
    ) throws(StoreError) -> UserScope {
        guard let folders = device.folders else {
            return try UserScope(device, nil, authorizer: authorizer)
        }
        do {
            let (place, named) = try folders.presentUser()
            let user = try UserScope(device, place, named: named, authorizer: authorizer)
            let outbox = user.outbox.file
            guard try hasLeft(user, named) else { return user }
            _ = user.outbox.end(.closed)
            outbox.close()
            user.store.close()
            return try UserScope(device, try folders.begin(after: place), authorizer: authorizer)
        } catch let error as StoreError {
            throw error
        } catch {
            device.log.failure(
                "\(error)",
                "Whose files these are cannot be read. Nothing is kept until the next launch."
            )
            return try UserScope(device, nil, authorizer: authorizer)
        }
    }

    /// Whether what is in the present folder is not this user's: they have left, and that could not
    /// be noted on disk.
    private static func hasLeft(_ user: UserScope, _ named: Owner?) throws -> Bool {
        let outbox = user.outbox.file
        // An outbox that cannot be read sends nothing either.
        let owner = outbox.isThere ? try? outbox.owner() : nil
        guard let named else { return owner != nil && owner != user.owner }
        // An outbox says whose it is when its user leaves. Or the app has a Sanguine server by now.
        guard owner == nil, user.owner != named else { return owner != nil }
        if outbox.isThere { try outbox.setOwner(named) }
        return true
    }

    /// The present user.
    var present: UserScope { scope.withLock { $0 } }

    /// Does something for the present user; for the next one, if they change in that moment.
    func perform<Value>(
        _ body: (UserScope) throws(SanguineError) -> Value
    ) throws(SanguineError) -> Value {
        if let refusal = device.configuration.refusal { throw refusal }
        while true {
            let user = present
            do throws(SanguineError) {
                return try body(user)
            } catch {
                guard error == .userChanged else { throw error }
                changing.withLock { _ in }
                guard present !== user else { throw error }
            }
        }
    }

    // MARK: - Changes

    /// The app says who the user is.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if that cannot be kept, ``SanguineError/closed``.
    func signIn(as owner: Owner) throws(SanguineError) {
        while true {
            guard !isClosed.withLock({ $0 }) else { throw .closed }
            let user = present
            switch user.owner {
            case owner: return
            case nil: if try join(user, owner) { return }
            default: _ = change(from: user, to: nil, authorizers?.next(nil))
            }
        }
    }

    /// A user whom nobody has named becomes known, and keeps everything.
    ///
    /// - Returns: Whether they are still there, and nobody else was quicker.
    private func join(_ user: UserScope, _ owner: Owner) throws(SanguineError) -> Bool {
        let isDone = try changing.withLock { _ throws(SanguineError) in
            guard present === user, user.owner == nil, !isClosed.withLock({ $0 }) else {
                return false
            }
            try user.session.check()
            do {
                // First: what a death finds named here is the user's, and nobody else's.
                if let place = user.place { try place.folders.name(owner, at: place) }
            } catch {
                throw .store(.writeFailed("who is signed in: \(error)"))
            }
            try user.session.name(owner)
            departed.takeOver(for: user)
            return true
        }
        guard isDone else { return false }
        user.signedIn(nil, isFirst: true)
        device.queries.userIsKnown()
        return true
    }

    /// Signs the user out.
    ///
    /// Everything local is done before this suspends; then the server is told, once.
    nonisolated(nonsending) func signOut(_ keeping: SanguineClient.Keeping) async {
        let former = present
        let next = authorizers?.next(nil)
        guard let session = change(from: nil, to: nil, next, keeping: keeping) else { return }
        await former.session.tellServer(ofEnd: session)
    }

    /// Removes everything of all users and of the device, and goes on with nobody.
    ///
    /// Everything local is done before this suspends; then the server is told, once.
    nonisolated(nonsending) func erase() async throws(SanguineError) {
        let leaving = present
        var failure: SanguineError? = .closed  // Unless there is a change.
        let session = change(from: nil) { former, _ in
            failure = nil
            return eraseFiles(of: former, failure: &failure)
        }
        if let session { await leaving.session.tellServer(ofEnd: session) }
        if let failure { throw failure }
    }

    /// Puts a user of that account in the place of the present one, for tests.
    func change(to account: Identifier?) {
        _ = change(from: nil, to: nil, authorizers?.next(account))
    }

    /// The user's account has become known, or they have signed in again.
    func signedIn(_ user: UserScope, _ account: Identifier, isFirst: Bool) {
        if isFirst {
            changing.withLock { _ in
                guard present === user, !isClosed.withLock({ $0 }) else { return }
                departed.takeOver(for: user)
            }
        }
        user.signedIn(account, isFirst: isFirst)
    }

    /// Ends all that is under way.
    func close() {
        // From here on nobody changes any more; the rest runs the app's code, so under no lock.
        let isFirst = changing.withLock { _ in
            isClosed.withLock { isClosed in
                defer { isClosed = true }
                return !isClosed
            }
        }
        guard isFirst else { return }
        let user = present
        let ended = user.end(.closed)
        device.close()
        ended.tell()
        user.outbox.file.close()
        user.store.close()
        departed.close()
    }

    /// - Parameters:
    ///   - expected: Who is to leave; nothing happens if they are gone. Default: whoever is there.
    ///   - session: The session that the next user begins with.
    ///   - authorizer: Stands for the next user's session in tests.
    ///   - heir: The account that receives the operations that wait: a guest gets a new account
    ///     after the device's identity was lost. Default: none.
    ///   - keeping: What stays of the one who leaves. Default: what waits, for a while.
    /// - Returns: The session to end on the server, if there was one.
    private func change(
        from expected: UserScope?,
        to session: StoredSession?,
        _ authorizer: (any Authorizer)?,
        heir: Owner? = nil,
        keeping: SanguineClient.Keeping = .waitingOperations()
    ) -> StoredSession? {
        change(from: expected) { former, owner in
            // First of all: whatever fails from here on, nobody else's they become.
            let owner = heir ?? owner
            departed.note(owner, of: former)
            let next = scope(after: former, session, authorizer)
            // Now companions write no more.
            let waits = departed.add(former, owner, keeping)
            guard let next else { return nil }
            departed.takeOver(for: next)
            let tell = begin(next)
            former.store.close()
            departed.remove(former, keepingOutbox: waits)
            return (next, tell)
        }
    }

    /// Ends the present user, and has another one follow.
    private func change(from expected: UserScope?, _ succeed: Succession) -> StoredSession? {
        var after: @Sendable () -> Void = {}
        let session = changing.withLock { _ -> StoredSession? in
            let former = present
            guard !isClosed.withLock({ $0 }), expected == nil || expected === former else {
                return nil
            }
            let (owner, wasActive) = (former.owner, former.feed.isActive)
            let ended = former.end(.userChanged)
            device.configuration.logger.debug("\(Self.changes)")
            // The account may have become known in that moment.
            let last = ended.session.map { Owner($0.account) } ?? owner
            guard let (next, tell) = succeed(former, last) else {
                after = ended.tell
                return ended.session
            }
            // Who sees the next user sees nothing of the former one.
            scope.withLock { $0 = next }
            device.metrics.note(next.owner == nil ? .signedOut : .userChanged)
            after = { [self] in
                tell()
                ended.tell()
                if present === next { next.start(isActive: wasActive) }
                device.records.userChanged()
                device.outboxNews.changed()
                device.userChanged()
            }
            return ended.session
        }
        after()
        return session
    }

    /// Makes a user's part of the cache the present one.
    private func begin(
        _ user: UserScope,
        device partition: Partition? = nil
    ) -> @Sendable () -> Void {
        user.session.onChange(
            SessionKeeper.Handlers(
                signedIn: { [weak self, weak user] account, isFirst in
                    guard let self, let user else { return }
                    signedIn(user, account, isFirst: isFirst)
                },
                replaced: { [weak self, weak user] session, isSameGuest in
                    guard let self, let user else { return }
                    let heir = isSameGuest ? Owner(session.account) : nil
                    _ = change(from: user, to: session, nil, heir: heir)
                }
            )
        )
        device.present.set(user.authorizer)
        return device.change(to: user.partition, device: partition)
    }

    private func scope(
        after former: UserScope,
        _ session: StoredSession?,
        _ authorizer: (any Authorizer)?
    ) -> UserScope? {
        var place: UserFolders.Place?
        if let folders = device.folders, let old = former.place {
            do {
                place = try folders.begin(after: old)
            } catch {
                device.log.failure("\(error)", "A sign-out could not be noted on disk.")
                place = folders.next(after: old)
            }
        }
        do {
            return try UserScope(
                device,
                place,
                floor: former.outbox.file.nextFloor,
                session: session,
                isAfterSignOut: true,
                authorizer: authorizer
            )
        } catch {
            device.log.failure("\(error)", "There is no room for the next user.")
            return nil
        }
    }

    /// Removes the files of everybody, and makes the scope of whoever comes next.
    private func eraseFiles(
        of user: UserScope,
        failure: inout SanguineError?
    ) -> (UserScope, @Sendable () -> Void)? {
        departed.erase(with: user)
        user.store.close()
        device.endPartition()
        var place: UserFolders.Place?
        if let folders = device.folders {
            let erased = folders.erase(after: user.place)
            place = erased.place
            failure = erased.failure.map { .store(.writeFailed("erasing the data: \($0)")) }
        }
        do throws(SanguineError) { try device.vault.erase() } catch { failure = failure ?? error }
        do {
            let fresh = try device.freshPartition()
            let next = try UserScope(
                device,
                place,
                floor: user.outbox.file.nextFloor,
                isAfterSignOut: true,
                authorizer: authorizers?.next(nil)
            )
            return (next, begin(next, device: fresh))
        } catch {
            device.log.failure("\(error)", "There is no room for the next user.")
            failure = failure ?? .store(error)
            return nil
        }
    }

    // MARK: - Those who have left

    /// How many operations of users who have left wait for their return.
    func countLeft() -> Int { departed.count() }

    /// How many operations on the app's own backend nobody can name the user of.
    func countUnclaimed() -> Int { departed.countUnclaimed() }

    /// Gives those to the present user.
    func claim() throws(SanguineError) {
        let user = present
        try user.outbox.open(.mutation)
        try changing.withLock { _ throws(SanguineError) in
            guard present === user else { throw .userChanged }
            try departed.giveUnclaimed(to: user)
        }
        // The app's code, so under no lock.
        user.outbox.loadMore()
        user.outbox.resume()
        user.mutations.settling.refetchAll()
    }

    /// Removes those.
    func discardUnclaimed() throws(SanguineError) {
        try changing.withLock { _ throws(SanguineError) in try departed.discardUnclaimed() }
    }
}

/// Stands for the sessions of a client, as in tests.
protocol AuthorizerSource: Sendable {
    /// The one of the user who is there when the client is created.
    func first() -> any Authorizer

    /// The one of the next user.
    func next(_ account: Identifier?) -> any Authorizer
}
