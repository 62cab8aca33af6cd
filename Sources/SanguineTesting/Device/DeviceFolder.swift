import Foundation

/// A folder in the system's temporary folder, which is removed with the last reference to it.
final class DeviceFolder: Sendable {
    /// The files changed during every attempt to read them.
    struct Restless: Error, CustomStringConvertible {
        let description = "The client's files keep changing. Let it do less work before a kill."
    }

    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-device-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: url,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Returns another folder with the current files.
    func copy() throws -> DeviceFolder {
        let copy = try DeviceFolder()
        for (name, content) in try momentaryFiles() {
            let file = copy.url.appending(path: name)
            let manager = FileManager.default
            try manager.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            let permissions: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
            guard
                manager.createFile(atPath: file.path, contents: content, attributes: permissions)
            else { throw CocoaError(.fileWriteUnknown) }
        }
        return copy
    }

    /// Returns the names of the files that contain the text, sorted.
    func files(with text: String) throws -> [String] {
        let bytes = Data(text.utf8)
        return try momentaryFiles().filter { $0.value.range(of: bytes) != nil }.keys.sorted()
    }

    /// Returns all files as of a single point in time.
    ///
    /// Reading takes time, and a database and its log belong together. If two readings are equal,
    /// the files were in this state at the moment between them.
    private func momentaryFiles() throws -> [String: Data] {
        var last: [String: Data]?
        for _ in 0..<TestingLimits.readings {
            let files = files()
            if let files, files == last { return files }
            last = files
        }
        throw Restless()
    }

    /// Returns the files that can be read now, or `nil` if one was removed in the meantime.
    private func files() -> [String: Data]? {
        let manager = FileManager.default
        guard let names = try? manager.subpathsOfDirectory(atPath: url.path) else { return nil }
        var files: [String: Data] = [:]
        // The index of a log is shared memory, which ends with the process and is rebuilt from the
        // log.
        for name in names where !name.hasSuffix("-shm") {
            let file = url.appending(path: name)
            var isFolder: ObjCBool = false
            guard manager.fileExists(atPath: file.path, isDirectory: &isFolder) else { return nil }
            if isFolder.boolValue { continue }
            guard let data = try? Data(contentsOf: file) else { return nil }
            files[name] = data
        }
        return files
    }
}
