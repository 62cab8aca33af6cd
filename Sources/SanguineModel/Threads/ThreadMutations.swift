/// A mutation of system collections, which other mutations may only read.
package protocol SystemMutation: RecordMutation {}

/// Gives a thread a title of the user (`thread.rename`).
///
/// A title made by a function never replaces it. The operation is refused with `not_found` if there
/// is no such thread.
public struct RenameThread: RecordMutation, SystemMutation, Hashable {
    /// `thread.rename`.
    public static let name = "thread.rename"
    /// The thread's id.
    public let id: RecordID
    /// The title: 1 to 200 printable characters, not only spaces.
    public let title: String

    /// Creates the operation.
    public init(_ id: RecordID, to title: String) {
        self.id = id
        self.title = title
    }

    /// Sets the title.
    public func apply(to records: inout Records) throws {
        let range = ThreadLimits.titleCharacters
        guard title.isPlainText(of: range), title.contains(where: { !$0.isWhitespace }) else {
            throw Refusal(
                .invalidContent,
                """
                Set the title of a thread to \(range.lowerBound) to \(range.upperBound) printable \
                characters, not only spaces.
                """
            )
        }
        var thread = try records.thread(id)
        thread.title = title
        thread.titleSource = .own
        thread.updatedAt = records.operation.moment
        records.set(thread)
    }
}

/// Changes the area or the settings of a thread (`thread.set`).
///
/// The operation is refused with `not_found` if there is no such thread.
public struct ChangeThread: RecordMutation, SystemMutation, Hashable {
    /// `thread.set`.
    public static let name = "thread.set"
    /// The thread's id.
    public let id: RecordID
    /// The new area: at most 64 printable characters, or an empty text for none.
    ///
    /// `nil` leaves the area unchanged.
    public let area: String?
    /// A merge patch for the settings (RFC 7396): it sets members, and `null` removes a member.
    ///
    /// `nil` leaves the settings unchanged.
    public let settings: JSONValue?

    /// Creates the operation.
    public init(_ id: RecordID, area: String? = nil, settings: JSONValue? = nil) {
        self.id = id
        self.area = area
        self.settings = settings
    }

    /// Changes the thread.
    public func apply(to records: inout Records) throws {
        var thread = try records.thread(id)
        if let area {
            let limit = ThreadLimits.areaCharacters
            guard area.isEmpty || area.isPlainText(of: 1...limit) else {
                throw Refusal(
                    .invalidContent,
                    "Set the area of a thread to at most \(limit) printable characters."
                )
            }
            thread.area = area.isEmpty ? nil : area
        }
        if let settings {
            let merged = try thread.settings.merging(settings)
            guard case .object = merged, merged.encoded.count <= ThreadLimits.settingsBytes else {
                throw Refusal(
                    .invalidContent,
                    """
                    Set the settings of a thread to an object of at most \
                    \(ThreadLimits.settingsBytes) bytes as JSON.
                    """
                )
            }
            thread.settings = merged
        }
        thread.updatedAt = records.operation.moment
        records.set(thread)
    }
}

/// Deletes a thread with its messages (`thread.delete`).
///
/// The thread is deleted at once, on all devices, and its messages are no longer shown. The server
/// removes them in the background. Deleting a thread that does not exist succeeds. A call in a
/// deleted thread is refused.
public struct DeleteThread: RecordMutation, SystemMutation, Hashable {
    /// `thread.delete`.
    public static let name = "thread.delete"
    /// The thread's id.
    public let id: RecordID

    /// Creates the operation.
    public init(_ id: RecordID) { self.id = id }

    /// Deletes the thread.
    public func apply(to records: inout Records) throws {
        records.delete(ChatThread.self, id.ofThread)
    }
}

extension Records {
    fileprivate mutating func thread(_ id: RecordID) throws -> ChatThread {
        if let thread = get(ChatThread.self, id.ofThread) { return thread }
        throw Refusal(.notFound, "Name a thread of the account: '\(id)' is not one.")
    }
}

extension RecordSchema {
    /// The records of the library, in each schema.
    static let systemRecords: [any SyncedRecord.Type] = [ChatThread.self, ChatMessage.self]

    /// The mutations of ``systemRecords``, in each schema.
    static let systemMutations: [any RecordMutation.Type] = [
        RenameThread.self, ChangeThread.self, DeleteThread.self,
    ]
}
