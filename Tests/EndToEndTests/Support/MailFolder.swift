import Foundation

/// The folder into which a server writes its e-mails, one `.eml` file each.
struct MailFolder: Sendable {
    let folder: URL

    /// Creates the folder that `sanguine serve` uses without settings for e-mails.
    init(of data: URL) { folder = data.appending(path: "mail") }

    /// Creates the folder at a location.
    init(_ folder: URL) { self.folder = folder }

    /// Returns the codes that were sent to an address, newest first.
    func codes(for address: String) -> [String] {
        // The name of a file is the id of its message, which begins with the time.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.filter { $0.hasSuffix(".eml") }.sorted(by: >).compactMap { name in
            let file = folder.appending(path: name)
            guard let text = try? String(contentsOf: file, encoding: .utf8),
                text.contains("To: <\(address)>"),
                let found = text.firstMatch(of: #/(\d{4}) (\d{4})/#)
            else { return nil }
            return String(found.1 + found.2)
        }
    }
}
