public import SanguineModel

/// The user's threads: conversations whose questions and answers the server stores.
///
/// ```swift
/// for thread in client.threads.list(in: "love") { print(thread.title ?? "New") }
/// let found = try await client.threads.search(prefix: "venus")
/// try client.threads.rename(thread.id, to: "Venus in 2027")
/// ```
///
/// Threads are records: they are mirrored on the device, can be read without a network, and are
/// restored on a new device. A thread begins with its first call, see
/// ``SanguineClient/call(_:in:)``. An id in upper case, as `UUID()` prints it, names the same
/// thread as in lower case, in which it is stored.
public struct Threads: Sendable {
    private let users: UserSwitcher

    init(users: UserSwitcher) { self.users = users }

    private var records: UserRecords { users.current.records }

    // MARK: - Reading

    /// Returns the threads on this device, the one with the newest question first.
    ///
    /// - Parameter area: The area of the threads; `nil` for all threads. Default: all.
    /// - Returns: The threads.
    public func list(in area: String? = nil) -> [ChatThread] {
        let query = RecordQuery.threads(in: area)
        return records.reading(query.collections, query.read)
    }

    /// Returns the threads as an observable object for a view; all views of an area share it.
    ///
    /// - Parameter area: The area of the threads; `nil` for all threads. Default: all.
    /// - Returns: The object.
    @MainActor
    public func model(in area: String? = nil) -> RecordModel<[ChatThread]> {
        RecordModel.shared(.threads(in: area), of: users)
    }

    /// Returns a thread as an observable object for a view; all views of the thread share it.
    ///
    /// - Parameter id: The thread's id. A new thread begins with its first question; see
    ///   `RecordID.new()`.
    /// - Returns: The object.
    @MainActor
    public func model(of id: RecordID) -> ThreadModel {
        let id = id.ofThread
        return users.services.models.model(ThreadModel.key(id)) { ThreadModel(id, users) }
    }

    /// Returns messages of a thread on this device, oldest first.
    ///
    /// ```swift
    /// var messages = client.threads.messages(of: thread.id)
    /// let earlier = client.threads.messages(of: thread.id, before: messages.first)
    /// ```
    ///
    /// - Parameters:
    ///   - id: The thread's id.
    ///   - message: The message before which the page ends; `nil` for the last messages. Default:
    ///     the last messages, with the questions that wait for a network.
    ///   - limit: The maximum number of messages, at most ``MessageLimits/window``. Default:
    ///     ``MessageLimits/page``.
    /// - Returns: The messages; empty if there are none.
    public func messages(
        of id: RecordID,
        before message: ThreadMessage? = nil,
        limit: Int = MessageLimits.page
    ) -> [ThreadMessage] {
        let (id, limit) = (id.ofThread, max(0, min(limit, MessageLimits.window)))
        return records.reading(ThreadContents.collections) { reader in
            guard let message else {
                return ThreadContents(of: id, MessageWindow(), limit: limit, from: reader)
                    .messages.suffix(limit)
            }
            guard reader.record(ChatThread.self, id) != nil else { return [] }
            let end = message.record.position - 1
            return reader.messages(of: id, from: 0, through: end, limit: limit)
                .map { ThreadMessage($0) }
        }
    }

    // MARK: - Searching

    /// Finds messages and titles on this device by the beginnings of words.
    ///
    /// ```swift
    /// let found = try await client.threads.search(prefix: "ven ret")  // "Venus retrograde"
    /// ```
    ///
    /// A result contains all words of the text, each as the beginning of a word. Case, accents and
    /// width make no difference. The words are in an index on the device, which is made in the
    /// background from the first search on. No request is sent.
    ///
    /// - Parameters:
    ///   - text: One or more words; at most ``MessageLimits/searchWords`` count.
    ///   - area: The area of the threads; `nil` for all threads. Default: all.
    ///   - limit: The maximum number of results, at most ``MessageLimits/mostSearchResults``.
    ///     Default: ``MessageLimits/searchResults``.
    /// - Returns: The newest results first, and whether the index is complete.
    /// - Throws: ``SanguineError``: `store` if the index cannot be read or made; `userChanged`
    ///   after a sign-out; `cancelled`.
    @concurrent
    public func search(
        prefix text: String,
        in area: String? = nil,
        limit: Int = MessageLimits.searchResults
    ) async throws(SanguineError) -> ThreadSearch {
        let user = users.current
        return try await user.threads.search(
            text,
            in: area,
            limit: min(limit, MessageLimits.mostSearchResults),
            of: user.records
        )
    }

    // MARK: - Changing

    /// Gives a thread a title, at once on this device and then on all others.
    ///
    /// A title that a function makes never replaces it.
    ///
    /// - Parameters:
    ///   - id: The thread's id.
    ///   - title: 1 to 200 printable characters.
    /// - Returns: A receipt for the operation's outcome.
    /// - Throws: ``SanguineError``: `not_found` if there is no such thread, or if it was begun
    ///   without a network and its first call was not sent yet; `invalid_content` for another
    ///   title; and the other errors of ``SanguineClient/perform(_:)-(RecordMutation)``.
    @discardableResult
    public func rename(_ id: RecordID, to title: String) throws(SanguineError) -> Receipt {
        try perform(RenameThread(id, to: title))
    }

    /// Changes the area or the settings of a thread, at once on this device and then on all others.
    ///
    /// - Parameters:
    ///   - id: The thread's id.
    ///   - area: The new area: at most 64 printable characters, or an empty text for none. Default:
    ///     unchanged.
    ///   - settings: A merge patch for the settings (RFC 7396); at most 4 KiB in all. Default:
    ///     unchanged.
    /// - Returns: A receipt for the operation's outcome.
    /// - Throws: ``SanguineError``, as ``rename(_:to:)`` does.
    @discardableResult
    public func set(
        _ id: RecordID,
        area: String? = nil,
        settings: JSONValue? = nil
    ) throws(SanguineError) -> Receipt {
        try perform(ChangeThread(id, area: area, settings: settings))
    }

    /// Deletes a thread with its messages, at once on this device and then on all others.
    ///
    /// Questions that wait for a network are withdrawn. A call that was sent continues, and is
    /// charged for.
    ///
    /// - Returns: A receipt for the operation's outcome.
    /// - Throws: The errors of ``SanguineClient/perform(_:)-(RecordMutation)``.
    @discardableResult
    public func delete(_ id: RecordID) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in
            let id = id.ofThread
            let receipt = try user.recordMutations.perform(DeleteThread(id))
            let exchanges = user.threads.pending.exchanges(in: id)
            user.threads.pending.delete(id)
            user.threads.pending.persist()
            for exchange in exchanges { _ = user.functions.withdraw(exchange.key) }
            return receipt
        }
    }

    private func perform(_ mutation: some RecordMutation) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in try user.recordMutations.perform(mutation)
        }
    }
}
