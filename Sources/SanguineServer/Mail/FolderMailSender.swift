import Foundation
import SanguineAuthority
import SanguineModel

/// Writes each message to a file of its own, `<id>.eml`, which only the server's user can read.
///
/// For development, and for servers whose mail another program sends. The folder is bounded:
/// messages of a certain age are removed, so that addresses do not outlive their accounts for long;
/// and while it is full of newer ones, further messages are refused, which the outbox tries again.
struct FolderMailSender: MailSender {
    /// The default number of messages in the folder: 10,000.
    static let filesLimit = 10_000
    /// The default time after which a message is removed: 7 days.
    static let filesKept = Duration.seconds(7 * 86_400)

    let folder: URL
    let format: MailFormat
    var limit = Self.filesLimit
    var kept = Self.filesKept
    var clock: any WallClock = SystemWallClock()

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
        guard try removeOld() < limit else {
            throw MailFailure(
                """
                The folder of 'mail.folder' is full: it has \(limit) messages. Send or remove \
                them, or raise 'mail.folderFiles'.
                """
            )
        }
        do throws(OwnerFileError) {
            try OwnerFile(file).create(content)
        } catch {
            throw MailFailure("A file could not be written to the folder of 'mail.folder'.")
        }
    }

    /// Removes the messages whose time is over.
    ///
    /// - Returns: The number of messages that are left.
    private func removeOld() throws(MailFailure) -> Int {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        } catch {
            throw MailFailure("The folder of 'mail.folder' could not be read.")
        }
        let oldest = clock.now() - kept
        var count = 0
        // Other files in the folder are not the server's.
        for name in names where name.hasSuffix(".eml") {
            let file = folder.appending(path: name)
            if let moment = moment(of: file), moment < oldest,
                (try? FileManager.default.removeItem(at: file)) != nil
            {
                continue
            }
            count += 1
        }
        return count
    }

    /// The time at which a message was written; `nil` if unknown.
    private func moment(of file: URL) -> Timestamp? {
        // The id of a message contains its time.
        if let id = Identifier(file.deletingPathExtension().lastPathComponent) { return id.moment }
        let attributes = try? FileManager.default.attributesOfItem(atPath: file.path)
        return (attributes?[.modificationDate] as? Date).map { date in
            Timestamp(millisecondsSince1970: Int64(date.timeIntervalSince1970 * 1_000))
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
