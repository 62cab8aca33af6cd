import Logging
import SanguineModel
import Synchronization

/// Who is there: the present user's scope, and what users who have left wait to send.
///
/// Changes come one after the other. When one has returned, nothing of the user before can be seen,
/// is sent, or is on disk, but what waits in their outbox for their return.
///
/// Mutable state: `scope` and `left`, each by its mutex, held over nothing; and the order of the
/// changes, by `changing`, which is held over the disk and over the parts of the client, and not
/// over the app's code.
package final class Users: Sendable {
    /// Logged when a user has gone, and before the next one is there.
    package static let changes = "The user changes."

    /// The outbox of a user who has left.
    private struct Left {
        let outbox: OutboxFile
        let place: UserFolders.Place?
        /// Whose it is; `nil` if nobody can say.
        let account: Identifier?
    }

    let device: Device
    private let scope: Mutex<UserScope>
    private let left = Mutex<[Left]>([])
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
        device.queries.entries.onSettled { [weak self] in
            self?.present.mutations.settling.settled($0)
        }
        device.records.observe { [weak self] in self?.present.records }
        device.queries.entries.observation.onCarried { [weak self] in self?.present.follow() }
        sweep()
        takeOver(for: first)
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
            let place = try folders.present()
            let user = try UserScope(device, place, authorizer: authorizer)
            // An outbox that cannot be read sends nothing either.
            let outbox = user.outbox.file
            let owner = outbox.isThere ? try? outbox.account() : nil
            guard let owner, owner != user.authorizer.account else { return user }
            // A sign-out that could not be noted on disk: what is in there is not this user's.
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

    private var fault: PlantedFault? { device.configuration.plantedFault }

    /// The present user.
    var present: UserScope { scope.withLock { $0 } }

    /// Does something for the present user; for the next one, if they change in that moment.
    func perform<Value>(
        _ body: (UserScope) throws(SanguineError) -> Value
    ) throws(SanguineError) -> Value {
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

    /// Signs the user out.
    ///
    /// Everything local is done before this suspends; then the server is told, once.
    nonisolated(nonsending) func signOut() async {
        let former = present
        guard let session = change(from: nil, to: nil, authorizers?.next(nil)) else { return }
        await former.session.tellServer(ofEnd: session)
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
                takeOver(for: user)
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
        for former in left.withLock({ $0 }) { former.outbox.close() }
    }

    /// - Parameters:
    ///   - expected: Who is to leave; nothing happens if they are gone. Default: whoever is there.
    ///   - session: The session that the next user begins with.
    ///   - authorizer: Stands for the next user's session in tests.
    /// - Returns: The session to end on the server, if there was one.
    private func change(
        from expected: UserScope?,
        to session: StoredSession?,
        _ authorizer: (any Authorizer)?
    ) -> StoredSession? {
        var after: @Sendable () -> Void = {}
        let session = changing.withLock { _ -> StoredSession? in
            let former = present
            guard !isClosed.withLock({ $0 }), expected == nil || expected === former else {
                return nil
            }
            let (account, wasActive) = (former.authorizer.account, former.feed.isActive)
            let ended = former.end(.userChanged)
            // The account may have become known in that moment.
            let owner = ended.session?.account ?? account
            device.configuration.logger.debug("\(Self.changes)")
            // First of all: whatever fails from here on, nobody else's they become.
            note(owner, of: former)
            let next = scope(after: former, session, authorizer)
            // Now companions write no more.
            let waits = leave(former, owner)
            guard let next else {
                after = ended.tell
                return ended.session
            }
            takeOver(for: next)
            let tell = begin(next)
            former.store.close()
            remove(former, keepingOutbox: waits)
            // Who sees the next user sees nothing of the former one.
            scope.withLock { $0 = next }
            device.metrics.note(next.authorizer.account == nil ? .signedOut : .userChanged)
            after = { [self] in
                tell()
                ended.tell()
                if present === next { next.start(isActive: wasActive) }
                device.records.userChanged()
                device.outboxNews.changed()
                device.restores.tell(1)
            }
            return ended.session
        }
        after()
        return session
    }

    /// Makes a user's part of the cache the present one.
    private func begin(_ user: UserScope) -> @Sendable () -> Void {
        user.session.onChange(
            SessionKeeper.Handlers(
                signedIn: { [weak self, weak user] account, isFirst in
                    guard let self, let user else { return }
                    signedIn(user, account, isFirst: isFirst)
                },
                replaced: { [weak self, weak user] session in
                    guard let self, let user else { return }
                    _ = change(from: user, to: session, nil)
                }
            )
        )
        device.present.set(user.authorizer)
        return device.change(to: user.partition)
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
                authorizer: authorizer
            )
        } catch {
            device.log.failure("\(error)", "There is no room for the next user.")
            return nil
        }
    }

    // MARK: - Those who have left

    /// Writes down whose the operations are.
    private func note(_ account: Identifier?, of user: UserScope) {
        guard let account, user.outbox.file.isUsed else { return }
        do {
            try user.outbox.file.setAccount(account)
        } catch {
            device.log.failure("\(error)", "The outbox of a user who leaves failed.")
        }
    }

    /// Leaves of a user what waits for their return.
    ///
    /// - Returns: Whether something waits, or may wait.
    private func leave(_ user: UserScope, _ account: Identifier?) -> Bool {
        let outbox = user.outbox.file
        guard outbox.isUsed else { return false }
        var waits = true
        do {
            waits = try outbox.leave()
        } catch {
            device.log.failure("\(error)", "The outbox of a user who has left failed.")
        }
        if waits {
            let former = Left(outbox: outbox, place: user.place, account: account)
            left.withLock { $0.append(former) }
        }
        return waits
    }

    private func remove(_ user: UserScope, keepingOutbox: Bool) {
        if !keepingOutbox { user.outbox.file.close() }
        guard let place = user.place, fault != .keepsFolder else { return }
        remove(place, keepingOutbox: keepingOutbox)
        device.log.removed(place.url)
    }

    private func remove(_ place: UserFolders.Place, keepingOutbox: Bool = false) {
        do {
            try place.folders.remove(place, keepingOutbox: keepingOutbox)
        } catch {
            device.log.failure(
                "\(error)",
                "Files of a user who has left are still on disk, unread. It is tried again."
            )
        }
    }

    /// Finishes what a death in the middle of a change has left.
    private func sweep() {
        for place in device.folders?.left ?? [] {
            let outbox = OutboxFile(place)
            do {
                guard outbox.isThere, try outbox.leave() else {
                    outbox.close()
                    remove(place)
                    continue
                }
                remove(place, keepingOutbox: true)
                let account = try outbox.account()
                left.withLock {
                    $0.append(Left(outbox: outbox, place: place, account: account))
                }
            } catch {
                device.log.failure("\(error)", "The outbox of a user who has left failed.")
                outbox.close()
                remove(place, keepingOutbox: true)
            }
        }
    }

    /// Gives a user what they have left themselves, and a guest what nobody else can have.
    private func takeOver(for user: UserScope) {
        let account = user.authorizer.account
        let hasGuests = device.configuration.server != nil && account == nil
        takeOver(for: user) { former in
            former.account.map { $0 == account || fault == .takesOverAnybodys } ?? hasGuests
        }
    }

    private func takeOver(
        for user: UserScope,
        _ kind: OutboxFile.Kind? = nil,
        where isMeant: (Left) -> Bool
    ) {
        do {
            try move(to: user, kind, where: isMeant)
        } catch {
            device.log.failure("\(error)", "Operations of an earlier stay could not be taken over.")
        }
    }

    private func move(
        to user: UserScope,
        _ kind: OutboxFile.Kind? = nil,
        where isMeant: (Left) -> Bool
    ) throws {
        for former in left.withLock({ $0 })
        where former.outbox !== user.outbox.file && isMeant(former) {
            try user.outbox.file.takeOver(former.outbox, kind)
            if let kind { try former.outbox.remove(kind) }
            try drop(former, ifEmpty: kind != nil)
        }
    }

    private func drop(_ former: Left, ifEmpty: Bool) throws {
        if ifEmpty, try former.outbox.leave() { return }
        left.withLock { $0.removeAll { $0.outbox === former.outbox } }
        former.outbox.close()
        if let place = former.place { remove(place) }
    }

    /// How many operations of users who have left wait for their return.
    func countLeft() -> Int {
        // Not to be read is not to be counted.
        left.withLock { $0 }.reduce(0) { $0 + ((try? $1.outbox.count()) ?? 0) }
    }

    /// How many operations on the app's own backend nobody can name the user of.
    func countUnclaimed() -> Int {
        unclaimed.reduce(0) { $0 + ((try? $1.outbox.rows(.mutation).count) ?? 0) }
    }

    private var unclaimed: [Left] { left.withLock { $0.filter { $0.account == nil } } }

    /// Gives those to the present user.
    func claim() throws(SanguineError) {
        let user = present
        try user.outbox.open(.mutation)
        try changing.withLock { _ throws(SanguineError) in
            guard present === user else { throw .userChanged }
            do {
                try move(to: user, .mutation) { $0.account == nil }
            } catch {
                throw .store(.writeFailed("the outbox: \(error)"))
            }
        }
        // The app's code, so under no lock.
        user.outbox.loadMore()
        user.outbox.resume()
        user.mutations.settling.refetchAll()
    }

    /// Removes those.
    func discardUnclaimed() throws(SanguineError) {
        try changing.withLock { _ throws(SanguineError) in
            do {
                for former in unclaimed {
                    try former.outbox.remove(.mutation)
                    try drop(former, ifEmpty: true)
                }
            } catch {
                throw .store(.writeFailed("the outbox: \(error)"))
            }
        }
    }
}

/// Stands for the sessions of a client, as in tests.
protocol AuthorizerSource: Sendable {
    /// The one of the user who is there when the client is created.
    func first() -> any Authorizer

    /// The one of the next user.
    func next(_ account: Identifier?) -> any Authorizer
}
