package import Foundation
import SanguineTesting

/// The folder into which a server writes its e-mails, one `.eml` file each.
package struct MailFolder: Sendable {
    package let folder: URL

    /// Creates the folder that `sanguine serve` uses without settings for e-mails.
    package init(of data: URL) { folder = data.appending(path: "mail") }

    /// Creates the folder at a location.
    package init(_ folder: URL) { self.folder = folder }

    /// Returns the codes that were sent to an address, newest first.
    package func codes(for address: String) -> [String] {
        mails.filter { $0.contains("To: <\(address)>") }.compactMap(Self.code)
    }

    /// Waits for a number of e-mails, and returns the code in the newest.
    package func code(ofMail count: Int = 1) async throws -> String {
        try await eventually("e-mail \(count)", within: .seconds(30)) { mails.count >= count }
        return mails.first.flatMap(Self.code) ?? ""
    }

    /// The e-mails, newest first.
    private var mails: [String] {
        // The name of a file is the id of its message, which begins with the time.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.filter { $0.hasSuffix(".eml") }.sorted(by: >).compactMap { name in
            try? String(contentsOf: folder.appending(path: name), encoding: .utf8)
        }
    }

    private static func code(in mail: String) -> String? {
        mail.firstMatch(of: #/\b(\d{4}) (\d{4})\b/#).map { String($0.1 + $0.2) }
    }
}
