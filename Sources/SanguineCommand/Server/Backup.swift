import ArgumentParser
import Foundation
import SanguineAuthority
import SanguineSQLite
import SanguineServer

/// `sanguine backup`.
struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a data folder, also while a server is using it, and verify the copy.",
        discussion: """
            The copy contains the database, the files and the signing keys: keep it as secret as \
            the folder. It is written to '<target>.incomplete', and renamed when it is complete \
            and verified. 'sanguine restore' restores it.
            """
    )

    @Argument(help: "The folder to create; it must not exist, or be empty.")
    var target: String

    @OptionGroup var data: DataOptions

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        guard !target.isEmpty else { throw ValidationError("Name the folder to create.") }
    }

    func run() async throws {
        let folder = try data.usableFolder()
        let target = URL(filePath: target, directoryHint: .isDirectory)
        let copy = FolderCopy(of: folder, to: target, with: CopiedFolder.files)
        let report = try await Interruptible.run { try await copy.make() }
        try CopiedFolder(target, report).print("backed up to", json: json)
    }
}

/// `sanguine restore`.
struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create a data folder from a backup, after verifying it.",
        discussion: """
            Stop the server first. The backup is not changed. Every device reads its data again \
            from the start, because the folder gets a new epoch.
            """
    )

    @Argument(help: "The backup: a folder that 'sanguine backup' created.")
    var backup: String

    @OptionGroup var data: DataOptions

    @Flag(help: "Move an existing folder to '<folder>.replaced-<n>'.")
    var replace = false

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        guard !backup.isEmpty else { throw ValidationError("Name the folder of the backup.") }
    }

    func run() async throws {
        let folder = try data.usableFolder(writing: true)
        let backup = URL(filePath: backup, directoryHint: .isDirectory)
        if let obstacle = UsableFolder.obstacle(in: backup, writing: false) {
            throw Failure("The backup '\(backup.path)' cannot be read: \(obstacle).")
        }
        let copy = FolderCopy(
            of: backup,
            to: folder,
            with: CopiedFolder.files,
            replaces: replace,
            upgrades: true
        )
        do {
            let report = try await Interruptible.run {
                try await copy.make { draft in
                    // Detect unreadable keys now, not when the server starts.
                    _ = try KeyFile.load(in: draft)
                    // The new epoch prevents devices from comparing numbers of the two histories.
                    try SQLiteStorage.assignNewEpoch(at: draft)
                }
            }
            try CopiedFolder(folder, report).print("restored to", json: json)
        } catch SQLiteStorageError.noData {
            throw Failure(
                """
                There is no backup at \(backup.path). Check the path, which must be a folder that \
                'sanguine backup' created.
                """
            )
        }
    }
}

/// The printed properties of a copied folder.
private struct CopiedFolder: Encodable {
    /// The files of a data folder that do not belong to the storage.
    static let files = [KeyFile.name, AdminToken.name]

    var folder: String
    var databaseBytes: Int64
    var accounts: Int
    var transfers: Int
    var files: Int
    var fileBytes: Int64
    /// Whether the files are in a bucket, which is not copied; `nil` if they are not.
    var filesInBucket: Bool?
    var replaced: String?

    init(_ folder: URL, _ report: FolderCopy.Report) {
        self.folder = folder.standardizedFileURL.path
        databaseBytes = report.databaseBytes
        accounts = report.examination.ledger.accounts
        transfers = report.examination.ledger.transfers
        files = report.examination.files.count
        fileBytes = report.examination.files.bytes
        filesInBucket = report.examination.files.areElsewhere ? true : nil
        replaced = report.replaced?.path
    }

    func print(_ verb: String, json: Bool) throws {
        if json { return try Output.write(json: self) }
        try Output.write("\(verb) \(folder)")
        try Output.write(
            "\(accounts) accounts, \(transfers) transfers, \(files) files, "
                + "\(databaseBytes + fileBytes) bytes, verified"
        )
        if filesInBucket == true {
            try Output.write("the files are in a bucket, which is not part of the copy")
        }
        if let replaced { try Output.write("the previous folder is now \(replaced)") }
    }
}
