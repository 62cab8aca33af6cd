import Foundation

/// Checks whether a command can use a folder.
enum UsableFolder {
    /// Returns the reason that the folder cannot be used, or `nil` if none can be found without
    /// changing anything.
    ///
    /// - Parameters:
    ///   - folder: The folder, which need not exist.
    ///   - writing: Whether it will be written, and created if it does not exist.
    /// - Returns: The reason, to be printed after a colon.
    static func obstacle(in folder: URL, writing: Bool = true) -> String? {
        let manager = FileManager.default
        var existing = folder.standardizedFileURL
        while !manager.fileExists(atPath: existing.path) {
            guard existing.path != "/" else { return nil }
            existing = existing.deletingLastPathComponent()
        }
        let isAbove = existing.path != folder.standardizedFileURL.path
        guard isFolder(existing) else {
            return isAbove ? "'\(existing.path)' is a file" : "it is a file"
        }
        if writing, !manager.isWritableFile(atPath: existing.path) {
            return isAbove ? "'\(existing.path)' cannot be written" : "it cannot be written"
        }
        guard !isAbove else { return nil }
        guard let names = try? manager.contentsOfDirectory(atPath: existing.path) else {
            return "it cannot be read"
        }
        let intruder = names.sorted().first { name in
            name.hasSuffix(".sqlite") && isFolder(existing.appending(path: name))
        }
        return intruder.map { "'\($0)' in it must be a file, but is a folder" }
    }

    /// Returns the error of a command.
    static func failure(_ folder: URL, _ reason: String, option: String) -> Failure {
        Failure(
            """
            The folder '\(folder.path)' cannot be used: \(reason). Name another one with \
            '\(option)', or make it readable and writable.
            """
        )
    }

    private static func isFolder(_ url: URL) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: url.path, isDirectory: &isFolder)
            && isFolder.boolValue
    }
}
