/// A failure of the client's store on disk.
public enum StoreError: Error, Hashable, Sendable {
    /// A read failed. The text is the database's message.
    case readFailed(String)
    /// A write failed and changed nothing. The text is the database's message.
    case writeFailed(String)
    /// The store was closed.
    case closed
}

extension StoreError: CustomStringConvertible {
    /// The failure, and what the developer can do about it.
    public var description: String {
        switch self {
        case .readFailed(let reason):
            "The store could not be read (\(reason)). Check the disk and the folder's permissions."
        case .writeFailed(let reason):
            """
            The store could not be written (\(reason)); nothing was changed. Free some space and \
            check the folder's permissions.
            """
        case .closed: "The store is closed. Create a new client."
        }
    }
}
