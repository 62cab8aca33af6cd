import SanguineModel

/// Identifies a resumable upload of an account: `<slot>-<UUIDv7>`.
struct UploadID: Hashable, Sendable {
    /// The account's slot that the upload takes, from 0.
    var slot: Int
    /// Distinguishes the uploads that take the slot one after the other.
    var unique: Identifier

    init(slot: Int, unique: Identifier) {
        self.slot = slot
        self.unique = unique
    }

    /// Parses an id; returns `nil` for any other text.
    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let slot = Int(parts[0]), String(slot) == parts[0],
            (0..<WireLimits.uploadsPerAccount).contains(slot),
            let unique = Identifier(String(parts[1])), unique.description == parts[1]
        else { return nil }
        self.init(slot: slot, unique: unique)
    }
}

extension UploadID: CustomStringConvertible {
    var description: String { "\(slot)-\(unique)" }
}
