public import Foundation
public import ReadingsModel

/// A photo that the user has chosen, and that is not stored on the server yet.
public struct ChosenPhoto: Codable, Hashable, Sendable {
    public let file: URL
    public let kind: ReadingKind
    public let origin: Origin
}

/// Keeps the chosen photo over restarts, so that its upload is resumed.
struct PhotoTray: Sendable {
    private let file: URL

    init(in folder: URL) { file = folder.appending(path: "chosen-photo.json") }

    var photo: ChosenPhoto? {
        (try? Data(contentsOf: file)).flatMap {
            try? JSONDecoder().decode(ChosenPhoto.self, from: $0)
        }
    }

    func keep(_ photo: ChosenPhoto?) throws {
        guard let photo else {
            if self.photo != nil { try FileManager.default.removeItem(at: file) }
            return
        }
        let folder = file.deletingLastPathComponent()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try JSONEncoder().encode(photo).write(to: file, options: .atomic)
    }
}
