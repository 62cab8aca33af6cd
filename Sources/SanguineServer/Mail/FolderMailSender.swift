import Foundation
import SanguineAuthority

/// Writes each message to a file of its own, `<id>.eml`, which only the server's user can read.
///
/// For development, and for servers whose mail another program sends.
struct FolderMailSender: MailSender {
    let folder: URL
    let format: MailFormat

    func send(_ mail: OutgoingMail) async throws(MailFailure) {
        let content = Data(format.text(of: mail).utf8)
        try await LongWork.shared.perform(for: .anonymous) { () throws(MailFailure) in
            try write(content, named: mail.id)
        }
    }

    private func write(_ content: Data, named id: String) throws(MailFailure) {
        guard !id.isEmpty, id.utf8.allSatisfy(Self.isNameByte) else {
            throw MailFailure("The id of a message is not a file name.", isPermanent: true)
        }
        do {
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw MailFailure("The folder of 'mail.folder' could not be created.")
        }
        let file = folder.appending(path: "\(id).eml")
        // The message was written before the server could record it.
        guard !FileManager.default.fileExists(atPath: file.path) else { return }
        do throws(OwnerFileError) {
            try OwnerFile(file).create(content)
        } catch {
            throw MailFailure("A file could not be written to the folder of 'mail.folder'.")
        }
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}
