import Foundation

/// Searches the bytes of every file in a folder.
enum FileBytes {
    /// Returns the names of the files that contain the text.
    static func files(in folder: URL, with text: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { name in
            // Folders have no content of their own and are skipped.
            let data = try? Data(contentsOf: folder.appending(path: name))
            return data?.range(of: Data(text.utf8)) != nil
        }
    }
}
