public import SanguineModel

extension RecordQuery where Value == [ChatThread] {
    /// The user's threads, the one with the newest question first.
    ///
    /// ```swift
    /// let threads = client.model(.threads(in: "love"))
    /// ```
    ///
    /// A thread that was begun on this device without a network is included at once.
    ///
    /// - Parameter area: The area of the threads; `nil` for all threads. Default: all.
    /// - Returns: The query.
    public static func threads(in area: String? = nil) -> RecordQuery {
        RecordQuery(reading: ChatThread.collection) { reader in
            let exchanges = Dictionary(grouping: reader.pendingExchanges, by: \.thread)
            let stored = reader.records(ChatThread.self)
            var threads = stored.map { thread in
                exchanges[thread.id].map { ThreadContents.thread(thread, with: $0) } ?? thread
            }
            if !exchanges.isEmpty {
                let known = Set(stored.map(\.id))
                threads += exchanges.filter { !known.contains($0.key) }
                    .compactMap { ThreadContents.thread(of: $0.value) }
            }
            if let area { threads.removeAll { $0.area != area } }
            return threads.sorted {
                ($1.lastMessageAt, $1.id) < ($0.lastMessageAt, $0.id)
            }
        }
        .known(ChatThread.collection.name, area == nil ? "all" : "area", area ?? "")
    }
}

extension RecordQuery where Value == [ThreadMessage] {
    /// The last messages of a thread, oldest first: at most ``MessageLimits/page``.
    ///
    /// Use a ``ThreadModel`` to show a thread, and ``Threads/messages(of:before:limit:)`` to read
    /// earlier messages.
    public static func messages(of thread: RecordID) -> RecordQuery {
        let thread = thread.ofThread
        return RecordQuery(reading: ChatThread.collection, ChatMessage.collection) { reader in
            ThreadContents(of: thread, MessageWindow(), from: reader).messages
        }
        .known(ChatMessage.collection.name, "last", thread.text)
    }
}

extension RecordQuery where Value == ThreadContents {
    /// A part of a thread, which the closure determines for each reading.
    static func thread(
        _ id: RecordID,
        _ window: @escaping @Sendable () -> MessageWindow
    ) -> RecordQuery {
        RecordQuery(reading: ChatThread.collection, ChatMessage.collection) { reader in
            ThreadContents(of: id, window(), from: reader)
        }
    }
}

extension RecordsReader {
    /// The calls in threads that the feed has not brought yet.
    fileprivate var pendingExchanges: [PendingExchange] {
        view.source.threads?.pending.all ?? []
    }
}

extension RecordKey {
    /// Creates the key of a record; a thread is stored with its id in lower case.
    init<R: SyncedRecord>(of type: R.Type, _ id: RecordID) {
        self.init(R.collection.name, R.self == ChatThread.self ? id.ofThread : id)
    }
}
