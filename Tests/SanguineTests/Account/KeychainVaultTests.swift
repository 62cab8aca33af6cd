import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Items that outlive the app's folders, as a keychain does.
private final class DeviceItems: SecretItems {
    private let items = WatchedState<[String: Data]>([:])

    func read(_ label: String) -> Data? { items.withLock { $0[label] } }

    func add(_ data: Data, _ label: String) -> Bool {
        items.withLock { items in
            guard items[label] == nil else { return false }
            items[label] = data
            return true
        }
    }

    func remove(_ label: String) { items.withLock { $0[label] = nil } }
}

/// The keychain keeps the device's identity, so that a reinstall finds the same account.
@Suite("The keychain's identity", .bounded)
struct KeychainVaultTests {
    private let items = DeviceItems()

    private func vault(_ folder: TemporaryFolder, former: [String] = []) -> KeychainIdentityVault {
        let file = FileIdentityVault(folder: folder.url)
        return KeychainIdentityVault(items, label: "server app", former: former, file: file)
    }

    private func hasFile(_ folder: TemporaryFolder) -> Bool {
        let file = folder.url.appending(path: "device-identity.json").path
        return FileManager.default.fileExists(atPath: file)
    }

    @Test func `a reinstall keeps the identity`() throws {
        let first = try vault(TemporaryFolder()).identity()
        #expect(try vault(TemporaryFolder()).identity() == first)
    }

    @Test func `an identity in a folder moves to the keychain`() throws {
        let folder = TemporaryFolder()
        let first = try FileIdentityVault(folder: folder.url).identity()
        #expect(try vault(folder).identity() == first && !hasFile(folder))
        #expect(try vault(TemporaryFolder()).identity() == first)
    }

    @Test func `a phone restored from a backup gets an identity of its own`() throws {
        let folder = TemporaryFolder()
        let old = try vault(folder).identity()
        // The folder is in the backup; the items are bound to the old phone.
        let phone = KeychainIdentityVault(
            DeviceItems(),
            label: "server app",
            file: FileIdentityVault(folder: folder.url)
        )
        let new = try phone.identity()
        #expect(new.deviceId != old.deviceId && new.deviceSecret != old.deviceSecret)
        #expect(try vault(folder).identity() == old)
    }

    @Test func `an item under a former label is used`() throws {
        let old = KeychainIdentityVault(items, label: "former")
        let first = try old.identity()
        #expect(try vault(TemporaryFolder(), former: ["former"]).identity() == first)
    }

    @Test func `an erased identity is not found again`() throws {
        let folder = TemporaryFolder()
        let first = try vault(folder).identity()
        try vault(folder).erase()
        #expect(try vault(folder).identity() != first)
    }

    @Test func `an item of another kind is an error and is kept`() throws {
        _ = items.add(Data("other".utf8), "server app")
        #expect(throws: SanguineError.self) { try vault(TemporaryFolder()).identity() }
        #expect(items.read("server app") == Data("other".utf8))
    }

    @Test(arguments: [
        ("/private/var/mobile/Containers/Data/Application/\(UUID())/Library/App", "Library/App"),
        ("/private/var/mobile/Containers/Shared/AppGroup/\(UUID())/Store", "Store"),
        (NSHomeDirectory() + "/Library/App", "Library/App"),
        ("/srv/app/data", "srv/app/data"),
    ])
    func `a folder has the same label after a reinstall`(path: String, label: String) {
        #expect(URL(filePath: path).folderLabel == label)
    }

    @Test func `a temporary folder keeps its identity in a file`() throws {
        #expect(FileManager.default.temporaryDirectory.appending(path: "a").folderLabel == nil)
    }
}
