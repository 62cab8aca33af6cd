import SanguineModel

/// The files that a call brings, as its function's rules judge them.
struct CallAttachments {
    /// What the function takes; `nil` for no files.
    let rules: AttachmentRules?
    /// Bytes of all files of a call together.
    let bytes: Int
    /// Whether the function's answers are for everybody, so that nothing of an account may be in
    /// them.
    let isPublic: Bool

    /// Creates the judge of a function's files.
    ///
    /// - Parameters:
    ///   - rules: What the function declares.
    ///   - most: Bytes of all files of a call together, whatever it declares.
    init(_ rules: FunctionRules, atMost most: Int) {
        self.rules = rules.attachments
        bytes = min(most, rules.attachments?.bytes ?? 0)
        isPublic = rules.cache.audience != .account
    }

    /// Reads the names of files.
    ///
    /// - Throws: `invalid_content` for fewer files than the function needs, for files of one that
    ///   takes none, for more than it takes, for a name that none has, and for a file that is named
    ///   twice.
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
            throw .refused("Leave 'attachments' out: the function's answers are for everybody.")
        }
        guard names.count <= rules.count else {
            throw .refused("Send at most \(rules.count) attachments: these are \(names.count).")
        }
        var ids: [BlobID] = []
        for name in names {
            guard let id = BlobID(name) else { throw .notUploaded(name) }
            guard !ids.contains(id) else {
                throw .refused("Name each attachment once: '\(name)' is named twice.")
            }
            ids.append(id)
        }
        return ids
    }

    /// Judges the files themselves.
    ///
    /// - Parameters:
    ///   - ids: The files of the call, by ``ids(_:)``.
    ///   - rows: Those that the account has.
    /// - Returns: What is known of them, in their order.
    /// - Throws: `invalid_content`, naming the file and the rule, for the first file that the
    ///   account does not have, the first one of another type, and the first one that is too much.
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
                "Leave the attachment '\(other.id)' out: it is \(other.type), and not \(types)."
            )
        }
        var rest = bytes
        for file in files {
            guard file.size <= rest else {
                throw .refused(
                    """
                    Leave the attachment '\(file.id)' out, or send a smaller one: its \
                    \(file.size) bytes make it more than \(bytes) in all.
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
