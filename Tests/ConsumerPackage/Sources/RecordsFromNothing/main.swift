import Foundation
import Sanguine

struct Note: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var text: String
    var isDone: Bool?
}

var configuration = SanguineClient.Configuration(server: URL(string: "http://127.0.0.1:8080"))
configuration.folder = URL(filePath: "/tmp/records-from-nothing")
configuration.register(Note.self)
let client = try SanguineClient(configuration)

// Created: visible and on disk when `perform` returns, with or without a network.
let milk = Note(id: .new(), text: "Buy milk")
try client.perform(CreateRecord(milk))
print(client.records(Note.self).map(\.text))

// Changed: only this member. Changes of other members on another device are kept.
try client.perform(SetFields(Note.self, milk.id, ["isDone": true]))

// An app in the foreground synchronizes by itself; a program that ends calls this.
do {
    try await client.synchronize()
    print("The server has all \(client.records(Note.self).count).")
} catch {
    print("\(client.outbox.summary.unsent) wait for the next run: \(error)")
}
