import SanguineModel

/// The writes of threads, as parts of the transactions that accept and end calls.
struct ThreadCommands: Sendable {
    let sync: SyncCommands

    private var settings: AuthoritySettings { sync.settings }

    /// The rows that the writes of a call read.
    static func keys(_ account: Identifier) -> [Key] {
        [.balance(account), .account(account), .feed(account)]
    }

    /// The rows that the beginning of a call reads.
    static func keys(_ account: Identifier, _ question: ThreadQuestion) -> [Key] {
        let thread = RecordID(question.thread)
        return keys(account) + [DeletedThread.key(DeletedThread.id(account, thread))]
    }

    /// Adds the question of a call to its thread, and the answer that is to be made.
    ///
    /// - Throws: `not_found` for a deleted thread, `storage_full` for a thread, an account or a
    ///   number of threads at its limit, `invalid_content`, or the storage's error.
    func begin(
        _ question: ThreadQuestion,
        of function: String,
        _ call: OperationPosition,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> PushDraft {
        let (thread, account) = (RecordID(question.thread), call.account)
        guard loaded.document(.deletedThread, DeletedThread.id(account, thread)) == nil else {
            throw Problem(.notFound, "Begin a thread with a new id: this one was deleted.")
        }
        var draft = try sync.begin(account, loaded, reader)
        do {
            try checkCount(thread, account, draft, reader)
            let mutation = BeginMessages(
                thread: thread,
                function: function,
                key: call.key,
                question: question.content,
                attachments: question.attachments,
                area: question.area,
                at: sync.now,
                limit: settings.messagesPerThread
            )
            try draft.write([mutation], as: question.thread)
            try draft.dropTombstones()
        } catch {
            throw .inThread(error)
        }
        return draft
    }

    /// Gives a thread a title that a function made.
    ///
    /// The command refuses if the thread cannot be read, or cannot store the title.
    func title(
        _ title: String,
        of thread: RecordID,
        _ account: Identifier
    ) -> Command<Void> {
        Command(
            keys: Self.keys(account),
            reading: { loaded, reader throws(Problem) in
                var draft = try sync.begin(account, loaded, reader)
                let mutation = TitleThread(thread: thread, title: title, at: sync.now)
                do {
                    try draft.writeOfServer(mutation, at: sync.now)
                } catch {
                    throw .inThread(error)
                }
                return Decision((), changes: draft.changes)
            }
        )
    }

    /// Removes some messages of a deleted thread.
    ///
    /// - Returns: The command, which returns whether there may be more.
    func removeSome(of removal: ThreadRemoval) -> Command<Bool> {
        let (account, thread) = (removal.account, removal.thread)
        let key = ThreadRemoval.key(removal.documentID)
        var command = Command<Bool>(
            keys: Self.keys(account) + [key],
            reading: { loaded, reader throws(Problem) in
                guard loaded.document(.threadRemoval, removal.documentID) != nil else {
                    return Decision(false)
                }
                // A removed account has no records.
                guard loaded.balance(account) != nil else {
                    return Decision(false, changes: [.delete(key)])
                }
                return try removed(thread, of: account, key, loaded, reader)
            }
        )
        command.isLong = true
        return command
    }

    private func removed(
        _ thread: RecordID,
        of account: Identifier,
        _ key: Key,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> Decision<Bool> {
        let field = ChatMessage.byThread.field
        let name = ChatMessage.collection.name
        let index = IndexName(collection: name, field: field)
        guard !sync.incomplete.contains(index) else { throw .incomplete(index) }
        var draft = try sync.begin(account, loaded, reader)
        var hasMore = false
        do {
            let value = IndexKey(ofStored: .string(thread.text))
            let list = IndexList(name, in: account, by: field)
            let ids = try reader.ids(in: list, at: value, limit: Self.removedAtOnce)
            hasMore = ids.count == Self.removedAtOnce
            var changes: [RecordKey: RecordValue?] = [:]
            for id in ids { changes.updateValue(nil, forKey: RecordKey(name, id)) }
            try draft.put(changes)
            try draft.dropTombstones()
        } catch {
            throw .inThread(error)
        }
        return Decision(hasMore, changes: draft.changes + (hasMore ? [] : [.delete(key)]))
    }

    /// The number of messages that one step removes.
    static let removedAtOnce = 250

    /// Refuses another thread of an account that has the maximum number of them.
    private func checkCount(
        _ thread: RecordID,
        _ account: Identifier,
        _ draft: PushDraft,
        _ reader: any RecordReader
    ) throws {
        let name = RecordName(ChatThread.collection.name, in: account, thread)
        if let row = try reader.record(name), row.isLive { return }
        let limit = settings.threadsPerAccount
        guard draft.threads < limit else {
            throw Refusal(.storageFull, "Delete threads first: at most \(limit) are allowed.")
        }
    }
}

extension PushDraft {
    /// Ends the answer of a call that is being made.
    ///
    /// The record may exceed the limits of the account, because its call was accepted. A message
    /// that was deleted stays deleted. The charge does not fail for a message that this version
    /// cannot read, or that cannot be stored whole: then only the members of its end are replaced,
    /// so that no device shows it as being made. The whole answer is stored under the call's key.
    ///
    /// - Throws: the storage's error.
    mutating func end(
        _ call: OperationPosition,
        as state: ChatMessage.State,
        _ end: MessageEnd?,
        charged: Int64,
        at now: Timestamp
    ) throws(Problem) {
        let mutation = EndMessage(
            key: call.key,
            state: state,
            end: end ?? MessageEnd(),
            charged: charged,
            at: now
        )
        do {
            do {
                try writeOfServer(mutation, at: now)
            } catch let refusal as Refusal {
                try replaceEnd(with: mutation, refusal)
            }
        } catch {
            throw .inThread(error)
        }
    }

    /// Removes the messages of a call that was withdrawn.
    ///
    /// Messages that cannot be read are removed as well, but stay in the count of their thread.
    ///
    /// - Throws: the storage's error.
    mutating func withdraw(_ call: OperationPosition, at now: Timestamp) throws(Problem) {
        do {
            do {
                try writeOfServer(WithdrawMessages(key: call.key), at: now)
            } catch is Refusal {
                let ids = [ChatMessage.question(of: call.key), ChatMessage.answer(of: call.key)]
                try removeMessages(ids.compactMap(\.self))
            }
        } catch {
            throw .inThread(error)
        }
    }

    /// Runs a mutation of the server, even if the account's records are at their limits.
    ///
    /// - Throws: ``Refusal`` if a record cannot be read or stored, or the storage's error.
    fileprivate mutating func writeOfServer(
        _ mutation: some SystemMutation,
        at now: Timestamp
    ) throws {
        try write([mutation], as: Identifier(at: now), evenIfFull: true)
        try dropTombstones()
    }

    /// Replaces the members of an answer that its end changes, without reading the others.
    ///
    /// The text is left out if the record cannot store it. A message that is no object, which no
    /// version can read, is removed.
    private mutating func replaceEnd(with mutation: EndMessage, _ refusal: Refusal) throws {
        guard let id = ChatMessage.answer(of: mutation.key) else { return }
        let key = RecordKey(ChatMessage.collection.name, id)
        var members: [String: JSONValue] = [
            "state": .string(mutation.state.rawValue),
            "charged": .integer(mutation.charged),
            "createdAt": mutation.at.json,
            "finishReason": .string(refusal.code.rawValue),
            "isCut": true,
        ]
        do {
            guard try string("state", of: key) == ChatMessage.State.making.rawValue else { return }
            do {
                var whole = members
                if let text = mutation.end.content?.text { whole["text"] = .string(text) }
                try replace(whole, of: key)
            } catch is Refusal {
                members["text"] = ""
                try replace(members, of: key)
            }
        } catch is Refusal {
            try removeMessages([id])
        }
        try dropTombstones()
    }

    private mutating func removeMessages(_ ids: [RecordID]) throws {
        var changes: [RecordKey: RecordValue?] = [:]
        for id in ids {
            changes.updateValue(nil, forKey: RecordKey(ChatMessage.collection.name, id))
        }
        try put(changes)
        try dropTombstones()
    }
}

extension Problem {
    /// The problem of a write in a thread.
    fileprivate static func inThread(_ error: any Error) -> Problem {
        switch error {
        case let problem as Problem: problem
        case let refusal as Refusal: refusal.problem
        case let index as IncompleteIndex: .incomplete(index.name)
        case let error as StorageError: Problem(error)
        default: Problem(.internalFault, "Send the call again with the same key.")
        }
    }
}
