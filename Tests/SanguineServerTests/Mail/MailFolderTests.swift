import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The bounds of the folder that receives e-mails as files.
@Suite("Folder of e-mails", .bounded)
struct MailFolderTests {
    private let clock = ManualWallClock()

    private func sender(_ folder: URL, limit: Int) throws -> FolderMailSender {
        FolderMailSender(
            folder: folder,
            format: MailFormat(
                from: try #require(EmailAddress("no-reply@example.org")),
                name: "Readings"
            ),
            limit: limit,
            kept: .seconds(86_400),
            clock: clock
        )
    }

    private func mail() -> OutgoingMail {
        OutgoingMail(
            id: Identifier(at: clock.now()).description,
            to: "ana@example.org",
            subject: "Code",
            text: "Hello\n",
            date: clock.now()
        )
    }

    @Test func `a full folder refuses messages, and says what to do`() async throws {
        try await TemporaryFolder.with { folder in
            let sender = try sender(folder, limit: 2)
            for _ in 0..<2 { try await sender.send(mail()) }
            let failure = await #expect(throws: MailFailure.self) {
                try await sender.send(mail())
            }
            #expect(failure?.isPermanent == false)
            #expect(failure?.description.contains("mail.folderFiles") == true)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 2)
        }
    }

    @Test func `a message is removed after its time, and other files are not`() async throws {
        try await TemporaryFolder.with { folder in
            let sender = try sender(folder, limit: 2)
            let note = folder.appending(path: "notes.txt")
            try Data("mine".utf8).write(to: note)
            let first = mail()
            try await sender.send(first)
            clock.advance(by: .seconds(86_000))
            let second = mail()
            try await sender.send(second)
            clock.advance(by: .seconds(401))
            let third = mail()
            try await sender.send(third)
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            #expect(Set(names) == ["notes.txt", "\(second.id).eml", "\(third.id).eml"])
        }
    }
}
