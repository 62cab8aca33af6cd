/// A failure of the client's store on disk, or of the keychain.
public enum StoreError: Error, Hashable, Sendable {
    /// A read failed. The text says why.
    case readFailed(String)
    /// A write or a removal failed. The text says why.
    ///
    /// A failed write to the database has changed nothing.
    case writeFailed(String)
    /// The store was closed.
    case closed
}

extension StoreError: CustomStringConvertible {
    /// The failure, and what the developer can do about it.
    public var description: String {
        switch self {
        case .readFailed(let reason):
            "The store could not be read: "
                + reason.advising("Check the disk and the folder's permissions.")
        case .writeFailed(let reason):
            "The store could not be written: "
                + reason.advising("Free some space and check the folder's permissions.")
        case .closed: "The store is closed. Create a new client."
        }
    }
}

extension StoreError {
    /// The keychain could not be read.
    static func keychainNotRead(_ status: Int32) -> StoreError { .readFailed(keychain(status)) }

    /// The keychain could not be written.
    static func keychainNotWritten(_ status: Int32) -> StoreError { .writeFailed(keychain(status)) }

    private static func keychain(_ status: Int32) -> String {
        """
        keychain status \(status) for the device's identity. Unlock the device once after its \
        start, and check the app's keychain entitlement.
        """
    }

    /// Some data could not be removed; other data may be gone.
    static func notErased(_ error: any Error) -> StoreError {
        .writeFailed("some data was not removed (\(error)). Call eraseLocalData() again.")
    }
}
