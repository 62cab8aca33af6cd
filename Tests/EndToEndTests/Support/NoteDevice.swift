import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport

@testable import SanguineCommand

/// A device with notes: the real `sanguine note` with its own folder.
struct NoteDevice: Sendable {
    /// The output of `sanguine note list --json`.
    struct Listed: Decodable, Sendable {
        struct Note: Decodable, Sendable {
            var id: String
            var text: String
            var pending: Bool
        }

        struct Refused: Decodable, Sendable {
            var operation: String
            var code: String
        }

        var notes: [Note]
        var waiting: Int
        var refused: [Refused]
        var error: String?

        /// The texts by id.
        var texts: [String: String] {
            Dictionary(notes.map { ($0.id, $0.text) }) { first, _ in first }
        }
    }

    let folder: URL
    let port: Int
    /// The folder of the device whose account this one shares.
    var joining: URL?

    func arguments(_ command: [String]) -> [String] {
        var all = ["note"] + command
        all += ["--folder", folder.path, "--server", "http://127.0.0.1:\(port)"]
        if let joining { all += ["--identity-from", joining.path] }
        return all
    }

    func run(_ command: String...) async throws -> Tool.Ended {
        try await Tool.with(arguments(command)) { try await $0.ended() }
    }

    /// Adds a note and returns its id.
    func add(_ text: String, _ options: String...) async throws -> String {
        let added = try await Tool.with(arguments(["add", text, "--json"] + options)) {
            try await $0.ended()
        }
        guard added.status == 0 else { throw Unexpected("Not added: \(added.errors)") }
        return try added.decode(Listed.Note.self).id
    }

    func list(_ options: String...) async throws -> Listed {
        let listed = try await Tool.with(arguments(["list", "--json"] + options)) {
            try await $0.ended()
        }
        guard listed.status == 0 else { throw Unexpected("Not listed: \(listed.errors)") }
        return try listed.decode()
    }

    /// Returns the list once nothing is pending.
    func settled(fileID: String = #fileID, line: Int = #line) async throws -> Listed {
        var listed = try await list()
        try await eventually(
            "a settled list",
            within: TestingLimits.longestWait,
            fileID: fileID,
            line: line
        ) {
            if listed.waiting == 0, listed.error == nil { return true }
            listed = try await list()
            return false
        }
        return listed
    }
}

extension API {
    private struct Device: Decodable {
        var deviceId: String
        var deviceSecret: String
    }

    /// Signs in with the identity of the client whose state is in the folder.
    func guest(of folder: URL) async throws -> Guest {
        let data = try Data(contentsOf: folder.appending(path: SharedIdentity.file))
        let device = try JSONDecoder().decode(Device.self, from: data)
        let body = GuestRequest(deviceId: device.deviceId, deviceSecret: device.deviceSecret)
        let answer = try await send(.POST, "/v1/accounts/guest", json: body)
        let signedIn = try answer.decode(SignedIn.self)
        return Guest(account: signedIn.account.id, session: signedIn.session)
    }

    /// Reads the live feed from its start until a note has the text, and returns the notes' texts
    /// by id.
    func notes(of guest: Guest, until last: String) async throws -> [String: String] {
        try await within(.seconds(30), "the note '\(last)' in the live feed") {
            var request = HTTPClientRequest(url: base + "/v1/live?since=0")
            request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
            let response = try await http.execute(request, timeout: .patient(30))
            var notes: [String: String] = [:]
            var text = ""
            for try await chunk in response.body {  // tidy: allow unbounded-wait: within 30 s.
                text += String(buffer: chunk)
                while let end = text.firstIndex(of: "\n") {
                    let line = text[..<end]
                    text = String(text[text.index(after: end)...])
                    guard line.hasPrefix("data: {") else { continue }
                    let data = Data(line.dropFirst(6).utf8)
                    let change = try JSONDecoder().decode(LiveChange.self, from: data).change
                    guard change.collection == "notes" else { continue }
                    notes[change.id.text] = change.value?["text"]?.string
                    if change.value?["text"]?.string == last { return notes }
                }
            }
            throw Unexpected("The live feed ended before '\(last)'.")
        }
    }
}
