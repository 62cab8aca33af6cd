import Foundation

/// Looks into every byte of a folder.
enum FileBytes {
    /// The names of the files that have the text in them.
    static func files(in folder: URL, with text: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { name in
            let data = try Data(contentsOf: folder.appending(path: name))
            return data.range(of: Data(text.utf8)) != nil
        }
    }
}
