import Foundation

/// A temporary folder that is removed together with this object.
final class Folder {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-benchmarks-\(UInt64.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(
            at: url,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
    }

    deinit { try? FileManager.default.removeItem(at: url) }
}
