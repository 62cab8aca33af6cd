import Foundation

/// A folder in the system's temporary folder, removed with the last reference to it.
final class DeviceFolder: Sendable {
    /// The files were written all the time while they were read.
    struct Restless: Error, CustomStringConvertible {
        let description = "The client's files do not come to rest. Let it do less before a kill."
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

    /// Another folder with the files as they are at this moment.
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

    /// The names of the files that have the text in them, in their order.
    func files(with text: String) throws -> [String] {
        let bytes = Data(text.utf8)
        return try momentaryFiles().filter { $0.value.range(of: bytes) != nil }.keys.sorted()
    }

    /// All files as they were at one moment.
    ///
    /// Reading takes a while, and a database and its log belong together: read twice with the same
    /// outcome, they were so at the moment between the readings.
    private func momentaryFiles() throws -> [String: Data] {
        var last: [String: Data]?
        for _ in 0..<TestingLimits.readings {
            let files = files()
            if let files, files == last { return files }
            last = files
        }
        throw Restless()
    }

    /// What can be read now; `nil` if a file has gone meanwhile.
    private func files() -> [String: Data]? {
        let manager = FileManager.default
        guard let names = try? manager.subpathsOfDirectory(atPath: url.path) else { return nil }
        var files: [String: Data] = [:]
        // A log's index is shared memory: it dies with the process, and is made of the log again.
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
