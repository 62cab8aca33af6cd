import Foundation

/// The files of this checkout that the rules check.
enum Repository {
    /// The folders to read in addition to the root's own files, if they exist.
    private static let folders = [
        ".ci", ".github", "Benchmarks", "Documentation", "Examples", "Scripts", "Sources", "Tests",
    ]
    private static let kinds: Set = ["md", "sh", "swift", "yaml", "yml"]
    private static let names: Set = [".swift-format", "Makefile", "run"]

    private static let root = URL(filePath: #filePath).appending(path: "../../..").standardized

    // Read once for all suites: splitting several hundred files into code and comments takes
    // seconds.
    private static let all = Result { try read() }

    /// Returns all files, ordered by path.
    static func files() throws -> [SourceFile] { try all.get() }

    private static func read() throws -> [SourceFile] {
        var paths = try FileManager.default.contentsOfDirectory(atPath: root.path)
        for folder in folders {
            guard
                let below = FileManager.default.enumerator(
                    atPath: root.appending(path: folder).path
                )
            else { continue }
            paths += below.compactMap { $0 as? String }.map { "\(folder)/\($0)" }
        }
        return try paths.filter(isWanted).sorted().map { path in
            SourceFile(path, try String(contentsOf: root.appending(path: path), encoding: .utf8))
        }
    }

    private static func isWanted(_ path: String) -> Bool {
        let parts = path.split(separator: "/")
        guard let name = parts.last, !parts.contains(where: { $0.hasPrefix(".build") }) else {
            return false
        }
        let kind = name.split(separator: ".").last.map(String.init) ?? ""
        return kinds.contains(kind) || names.contains(String(name))
    }
}
