import Foundation
import OrderedCollections
import SanguineModel

/// The user's account: read and changed at once, even without a network.
///
/// ```swift
/// client.account.current.language
/// try client.account.update {
///     $0.language = "de"
///     $0.settings["onboarding"] = true
/// }
/// ```
///
/// A change is stored on disk and visible when ``update(_:)`` returns. Only the changed members are
/// sent, by the ``Outbox``, so two devices that change different members keep both. Changes by
/// other devices and by the server, such as a purchased plan, arrive with the feed while the
/// account is observed, as by ``model`` or ``updates``.
///
/// For the sign-in of users who are known by e-mail or by an identity provider, see
/// <doc:Identity>.
public struct UserAccount: Sendable {
    // No mutable state: the parts of the client guard their own.
    let users: UserSwitcher
    var services: ClientServices { users.services }

    /// The account as it is now, without a request.
    public var current: AccountState {
        let user = users.current
        if let account = services.queries.snapshot(of: .account).value {
            return AccountState(account)
        }
        var state = AccountState(
            timeZone: user.zone.current.identifier,
            language: services.configuration.language
        )
        for patch in user.pendingAccountPatches { state.apply(patch) }
        return state
    }

    /// Returns the account, fetched unless it is fresh.
    ///
    /// - Throws: ``SanguineError``.
    public nonisolated(nonsending) func value() async throws(SanguineError) -> AccountState {
        AccountState(try await services.queries.value(of: .account))
    }

    /// The account: the current one at once, then one element for each change.
    ///
    /// A slow consumer gets the newest state but not those in between. The sequence ends when the
    /// client is closed.
    public var updates: AsyncStream<AccountState> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: AccountState.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let (values, pending) = (
            services.queries.updates(of: .account), services.outboxNotifier.stream()
        )
        // One reader, so that no state follows a newer one.
        let (changes, change) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let source = Task {
            await withDiscardingTaskGroup { group in
                group.addTask { for await _ in values { change.yield() } }
                group.addTask { for await _ in pending { change.yield() } }
            }
            change.finish()
        }
        let reader = Task {
            var last: AccountState?
            for await _ in changes {
                let state = current
                if state != last { continuation.yield(state) }
                last = state
            }
            continuation.finish()
        }
        continuation.onTermination = { _ in
            source.cancel()
            reader.cancel()
        }
        return stream
    }

    /// The account as an observable object for a view.
    ///
    /// All views share it.
    @MainActor
    public var model: AccountModel {
        services.models.model(AccountModel.key) { AccountModel(users) }
    }

    /// Changes the account: at once on this device, then on the server.
    ///
    /// - Parameter body: Changes the draft, which contains the visible state. It is called once,
    ///   and what it throws is thrown again; nothing has changed then.
    /// - Returns: A receipt for the change's outcome; `nil` if the body has changed nothing.
    /// - Throws: ``SanguineError``, and nothing is stored then: `invalid_content` for an unknown
    ///   time zone or for settings of more than 4 KiB, `outboxFull`, `store` if the disk failed,
    ///   ``SanguineError/notConfigured(_:)`` without a server.
    @discardableResult
    public func update(
        _ body: (inout AccountDraft) throws(SanguineError) -> Void
    ) throws(SanguineError) -> Receipt? {
        guard services.configuration.server != nil else { throw .notConfigured("'server'") }
        return try users.perform { user throws(SanguineError) in
            let before = AccountDraft(current)
            var draft = before
            try body(&draft)
            guard let patch = draft.patch(from: before) else { return nil }
            try draft.check()
            user.authorizer.allowSignIn()
            let isCached = services.queries.snapshot(of: .account).value != nil
            let receipt = try user.mutations.perform(AccountUpdate(patch: patch))
            // Otherwise the change of the cached account has marked them.
            if !isCached { markDependents(of: before.settings.json, draft.settings.json) }
            if draft.timeZone != before.timeZone {
                try user.zone.set(draft.timeZone)
                services.setZone(user.zone.current)
            }
            return receipt
        }
    }

    /// Marks values as stale that depend on the members in which two settings differ.
    private func markDependents(of old: JSONValue, _ new: JSONValue) {
        for name in SettingDependency.changed(from: old, to: new) {
            services.queries.invalidate(.dependency(name))
        }
    }

    /// Changes the app's own settings by their declared type; see ``AppSettings``.
    ///
    /// - Returns: A receipt for the change's outcome; `nil` if the body has changed nothing.
    /// - Throws: The errors of ``update(_:)``.
    @discardableResult
    public func update<Settings: AppSettings>(
        _ type: Settings.Type,
        _ body: (inout Settings) -> Void
    ) throws(SanguineError) -> Receipt? {
        try update { draft throws(SanguineError) in draft.settings.change(body) }
    }

    /// Follows the device's time zone again on this device, after a zone was set.
    ///
    /// If the account has another zone, the device's is sent.
    ///
    /// - Throws: ``SanguineError/notConfigured(_:)`` if the configuration names a zone, see
    ///   ``SanguineClient/Configuration/followsDeviceTimeZone``; ``SanguineError/userChanged``.
    public func followDeviceTimeZone() throws(SanguineError) {
        guard services.configuration.followsDeviceTimeZone else {
            throw .notConfigured("'followsDeviceTimeZone'")
        }
        let user = users.current
        try user.zone.unset()
        user.followDevice()
    }
}

extension UserScope {
    /// The changes of the account that the server may not have applied yet, in their order.
    var pendingAccountPatches: [JSONValue] {
        outbox.read { contents in
            contents.rows.values
                .filter { row in
                    row.name == AccountUpdate.name
                        && contents.state.outbox.items[row.sequence]?.isRefused == false
                }
                .sorted { $0.sequence < $1.sequence }
                .compactMap {
                    try? StoredForm.arguments.decode(AccountUpdate.self, from: $0.arguments).patch
                }
        }
    }
}
