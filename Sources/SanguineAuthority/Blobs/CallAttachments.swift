import SanguineModel

/// Checks the files of a call against the rules of its function.
struct CallAttachments {
    /// The rules for files; `nil` if the function takes none.
    let rules: AttachmentRules?
    /// The largest total size of a call's files in bytes.
    let bytes: Int
    /// Whether the function's answers are public, so that they must not depend on the files of an
    /// account.
    let isPublic: Bool

    /// Creates the checks for a function.
    ///
    /// - Parameters:
    ///   - rules: The rules of the function.
    ///   - most: The largest total size in bytes that the server allows.
    init(_ rules: FunctionRules, atMost most: Int) {
        self.rules = rules.attachments
        bytes = min(most, rules.attachments?.bytes ?? 0)
        isPublic = rules.cache.audience != .account
    }

    /// Parses the names of files.
    ///
    /// - Throws: `invalid_content` if there are fewer or more files than the function takes, if it
    ///   takes none, for a malformed name, and for a name that occurs twice.
    func ids(_ names: [String]) throws(Problem) -> [BlobID] {
        let least = rules?.minimum ?? 0
        guard names.count >= least else {
            throw .refused(
                "Send at least \(least) attachment\(least == 1 ? "" : "s"), not \(names.count)."
            )
        }
        guard !names.isEmpty else { return [] }
        guard let rules else {
            throw .refused("Leave 'attachments' out: the function takes none.")
        }
        guard !isPublic else {
            throw .refused("Leave 'attachments' out: the function's answers are public.")
        }
        guard names.count <= rules.count else {
            throw .refused("Send at most \(rules.count) attachments, not \(names.count).")
        }
        var ids: [BlobID] = []
        for name in names {
            guard let id = BlobID(name) else { throw .notUploaded(name) }
            guard !ids.contains(id) else {
                throw .refused("List each attachment once: '\(name)' is listed twice.")
            }
            ids.append(id)
        }
        return ids
    }

    /// Checks the rows of the files.
    ///
    /// - Parameters:
    ///   - ids: The files of the call, by ``ids(_:)``.
    ///   - rows: Those of the files that the account has.
    /// - Returns: The facts of the files, in the order of the ids.
    /// - Throws: `invalid_content`, naming the file and the rule, for the first file that the
    ///   account does not have, that is of another type, or that exceeds the total size.
    func check(_ ids: [BlobID], _ rows: [BlobRow]) throws(Problem) -> [BlobFacts] {
        guard let rules else { return [] }
        var files: [BlobFacts] = []
        for id in ids {
            guard let row = rows.first(where: { $0.id == id }) else {
                throw .notUploaded(id.description)
            }
            files.append(row.facts)
        }
        if let other = files.first(where: { !rules.types.contains($0.type) }) {
            let types = rules.types.joined(separator: ", ")
            throw .refused(
                "Leave the attachment '\(other.id)' out: its type is \(other.type), not \(types)."
            )
        }
        var rest = bytes
        for file in files {
            guard file.size <= rest else {
                throw .refused(
                    """
                    Leave the attachment '\(file.id)' out, or send a smaller one: with its \
                    \(file.size) bytes the attachments exceed \(bytes) bytes in all.
                    """
                )
            }
            rest -= file.size
        }
        return files
    }
}

extension Problem {
    fileprivate static func refused(_ detail: String) -> Problem {
        Problem(.invalidContent, detail)
    }

    fileprivate static func notUploaded(_ name: String) -> Problem {
        let text = String(name.prefix(64))
        return .refused("Upload the attachment '\(text)' first: this account has no such file.")
    }
}
