import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineTesting

/// Two devices whose users register, sign in on the other device, merge guests, sign out all
/// devices and delete accounts, with the real client, real files and the server's decisions.
///
/// Every account has a word that is part of all its data. After each step the game checks that a
/// device shows no word of another account, and after a change of user that no file contains one. A
/// guest's word belongs to the account into which the guest was merged. A device that was signed
/// out from elsewhere may show what it has, and nothing newer.
///
/// Each step ends before the next one begins; answers are lost, and processes are killed, between
/// steps.
///
/// Used by one task.
final class AccountGame {
    /// An account, as the game knows it.
    private struct Owner {
        let number: Int
        let account: Identifier
        var isRegistered = false
        var isDeleted = false
        /// The owner into which the guest was merged.
        var heir: Int?

        /// Part of all the account's data.
        var mark: String { "MARK-OF-\(number)-" }
        var email: String { "owner-\(number)@game.test" }
        var password: String { "password of owner \(number)" }
    }

    /// A device, and what it must not show.
    private struct Device {
        let device: TestDevice
        var client: SanguineClient
        /// Whether its session was begun with credentials, which only credentials begin again.
        var hasCredentials = false
        /// Texts that were written after the device was signed out from elsewhere.
        var hidden: Set<String> = []
        var isOnline = true
        /// The words of accounts that were deleted on the device.
        var deleted: Set<String> = []
        /// The number of the owner who used the device last, if they did not leave.
        var last: Int?
    }

    private let seed: UInt64
    private var random: SplitMix64
    private let authority: InMemoryAuthority
    private let network: AccountGameNetwork
    private let wall = ManualWallClock()
    private var devices: [Device] = []
    private var owners: [Owner] = []
    private var step = 0
    private var writes = 0
    private var trace: [String] = []
    private(set) var tally: AccountGameTally = [:]

    init(seed: UInt64, fault: PlantedFault?) throws {
        self.seed = seed
        random = SplitMix64(seed: seed)
        var settings = AuthoritySettings()
        // A hash that takes no time.
        settings.passwordCost.logRounds = 1
        authority = InMemoryAuthority(schema: .userGame, settings: settings, clock: wall)
        network = AccountGameNetwork(authority)
        for number in 0..<2 {
            let device = TestDevice(
                network: network,
                clock: wall,
                seed: seed &* 2 &+ UInt64(number)
            ) { configuration in
                configuration.register(.userGame)
                configuration.plantedFault = fault
                configuration.recordPolling = nil
            }
            devices.append(Device(device: device, client: try device.launch()))
        }
    }

    /// Ends both processes.
    func end() { for device in devices { device.device.quit() } }

    func leak(steps: Int) async -> UserLeak? {
        do {
            for _ in 0..<steps {
                step += 1
                let index = Int.random(in: 0..<devices.count, using: &random)
                try await event(on: index)
                for index in devices.indices { try await check(index) }
            }
            return nil
        } catch let leak as UserLeak {
            return leak
        } catch {
            return leak("the game itself failed: \(error)")
        }
    }

    // MARK: - Events

    private func event(on index: Int) async throws {
        let kind = Int.random(in: 0..<100, using: &random)
        trace.append("\(step): \(kind) on \(index) with \(owner(on: index)?.number ?? -1)")
        network.losesAnswer = Int.random(in: 0..<6, using: &random) == 0
        defer { network.losesAnswer = false }
        switch kind {
        case 0..<34: try await write(on: index)
        case 34..<46: try await upgrade(on: index)
        case 46..<68: try await signIn(on: index)
        case 68..<76: try await signOut(on: index)
        case 76..<82: try await signOutEverywhere(from: index)
        case 82..<89: try await delete(on: index)
        case 89..<94: try await kill(index)
        default: toggleNetwork(of: index)
        }
    }

    /// Writes a note; without a user, the device signs in first.
    private func write(on index: Int) async throws {
        await synchronize(index)
        guard let owner = owner(on: index) else { return }
        writes += 1
        let id = RecordID.game("note-\(owner.number)-\(writes)")
        _ = try? devices[index].client.perform(
            WriteNote(id: id, text: "\(owner.mark)\(writes)")
        )
        if !devices[index].client.outbox.pending.isEmpty, !devices[index].isOnline {
            note(.waitingWrite)
        }
        await synchronize(index)
    }

    private func upgrade(on index: Int) async throws {
        await synchronize(index)
        guard let owner = owner(on: index), !owner.isRegistered, !owner.isDeleted else { return }
        let client = devices[index].client
        await run(index) {
            try await client.account.upgrade(email: owner.email, password: owner.password)
        }
        let mails = try await authority.authority.dueMail(limit: 1_000).due
        let code = mails.last { $0.to == owner.email }?.text.firstMatch(of: #/(\d{4}) (\d{4})/#)
        guard let code else { throw leak("no code was sent to \(owner.email)") }
        let text = String(code.1 + code.2)
        let isDone = await run(index) { try await client.account.verify(code: text) }
        // The answer may have been lost, and a repetition is refused.
        let stored = try await authority.authority.account(owner.account).0
        owners[owner.number].isRegistered = stored.kind == .registered
        guard isDone else { return }
        devices[index].hasCredentials = true
        note(.upgrade)
    }

    /// Signs in to a registered account, with whichever user the device has.
    private func signIn(on index: Int) async throws {
        let all = owners.filter { $0.isRegistered && !$0.isDeleted }
        guard let owner = all.randomElement(using: &random) else { return }
        let former = self.owner(on: index)
        let client = devices[index].client
        let isDone = await run(index) {
            try await client.signIn(email: owner.email, password: owner.password)
        }
        guard isDone, client.accountId == owner.account else { return }
        devices[index].hasCredentials = true
        devices[index].hidden = []
        devices[index].last = owner.number
        if let former, former.number != owner.number {
            if former.isRegistered {
                note(.userChange)
            } else {
                owners[former.number].heir = owner.number
                note(.merge)
            }
        } else if former == nil {
            note(.secondDevice)
        }
        try await check(index)
        await synchronize(index)
        try await checkFiles(index)
    }

    private func signOut(on index: Int) async throws {
        let client = devices[index].client
        guard client.accountId != nil else { return }
        await client.signOut()
        left(index)
        note(.signOut)
        try await checkFiles(index)
    }

    /// Signs out all devices of the account, which then receives a record.
    private func signOutEverywhere(from index: Int) async throws {
        guard let owner = owner(on: index), owner.isRegistered else { return }
        let client = devices[index].client
        guard await run(index, { try await client.sessions.signOutEverywhere() }) else { return }
        left(index)
        try await checkFiles(index)
        // A server ends the live connections of ended sessions with its next ping.
        authority.ping()
        writes += 1
        let text = "\(owner.mark)later-\(writes)"
        let id = RecordID.game("later-\(writes)")
        authority.set(GameNote(id: id, text: text), of: owner.account)
        for other in devices.indices
        where other != index && devices[other].client.accountId == owner.account
            && devices[other].hasCredentials
        {
            devices[other].hidden.insert(text)
            note(.revocation)
            await synchronize(other)
            // Its user must sign in; the server would only give the device another guest.
            guard devices[other].client.accountId == owner.account else {
                throw leak("device \(other) was signed out, and has another user unasked")
            }
        }
    }

    private func delete(on index: Int) async throws {
        guard let owner = owner(on: index) else { return }
        let client = devices[index].client
        let waits = !client.outbox.pending.isEmpty
        guard await run(index, { try await client.deleteAccount() }) else { return }
        for number in words(of: owner.number) {
            owners[number].isDeleted = true
            devices[index].deleted.insert(owners[number].mark)
        }
        left(index)
        note(waits ? .deletionWithWrites : .deletion)
        try await checkFiles(index)
    }

    private func kill(_ index: Int) async throws {
        devices[index].client = try devices[index].device.launch()
        note(.death)
        try await checkFiles(index)
    }

    private func toggleNetwork(of index: Int) {
        devices[index].isOnline.toggle()
        let connectivity = devices[index].device.connectivity
        if devices[index].isOnline { connectivity.connect() } else { connectivity.disconnect() }
    }

    // MARK: - Clients

    private func note(_ turn: AccountGameTurn) { tally[turn, default: 0] += 1 }

    /// Records that the device has no user.
    private func left(_ index: Int) {
        devices[index].hasCredentials = false
        devices[index].hidden = []
        devices[index].last = nil
    }

    /// Sends and receives everything; signs a guest in if the device has no user.
    private func synchronize(_ index: Int) async {
        guard devices[index].isOnline else { return }
        let client = devices[index].client
        await run(index) { try await client.synchronize() }
    }

    /// Runs the body while the device's clock advances, and returns whether it succeeded.
    @discardableResult
    private func run<Value: Sendable>(
        _ index: Int,
        _ body: @escaping @Sendable () async throws -> Value
    ) async -> Bool {
        (try? await devices[index].device.delay.advancing { try await body() }) != nil
    }

    /// Returns the owner of the device's account, which is a new one if it is not known yet.
    ///
    /// If the account of a guest's session was deleted on the other device, the device's next guest
    /// receives the operations that wait on the device.
    private func owner(on index: Int) -> Owner? {
        guard let account = devices[index].client.accountId else { return nil }
        if let owner = owners.first(where: { $0.account == account }) {
            devices[index].last = owner.number
            return owner
        }
        let owner = Owner(number: owners.count, account: account)
        owners.append(owner)
        if let last = devices[index].last, owners[last].isDeleted {
            for number in words(of: last) { owners[number].heir = owner.number }
        }
        devices[index].last = owner.number
        return owner
    }

    /// Returns the numbers of an owner and of the guests that were merged into it.
    private func words(of number: Int) -> Set<Int> {
        Set([number] + owners.filter { $0.heir == number }.map(\.number))
    }

    // MARK: - Checks

    private func check(_ index: Int) async throws {
        try await afterSignOut(of: index) { try checkNow(index) }
    }

    /// Runs a check, again until the sign-out in progress has ended if it finds a leak.
    ///
    /// A client has no account as soon as a sign-out begins, and data until it ends. After a
    /// deletion on the other device, the client signs out by itself.
    private func afterSignOut(of index: Int, _ check: () throws -> Void) async throws {
        do {
            try check()
        } catch let leak as UserLeak where devices[index].client.accountId == nil {
            do {
                try await eventually("the end of a sign-out", within: .seconds(5)) {
                    (try? check()) != nil
                }
            } catch {
                throw leak
            }
        }
    }

    private func checkNow(_ index: Int) throws {
        let device = devices[index]
        let current = owner(on: index)
        let own = current.map { words(of: $0.number) } ?? []
        let shown = UserGameFiles.shown(by: device.client)
        let profile = device.client.cached(.account)?.id
        // The account may have changed in between: then the next step checks.
        guard device.client.accountId == current?.account else { return }
        for owner in owners where !own.contains(owner.number) {
            guard let text = shown.first(where: { $0.contains(owner.mark) }) else { continue }
            throw leak("\(name(current)) sees '\(text)' on device \(index)")
        }
        if let text = shown.first(where: device.hidden.contains) {
            throw leak("device \(index) was signed out, and sees '\(text)'")
        }
        // A device that ends just after a merge may still have the guest's profile on disk.
        let profiles = own.map { owners[$0].account }
        if let profile, !profiles.contains(profile) {
            throw leak("\(name(current)) sees the profile of \(profile)")
        }
    }

    /// Checks every byte of the device's folder.
    private func checkFiles(_ index: Int) async throws {
        try await check(index)
        try await afterSignOut(of: index) { try checkFilesNow(index) }
    }

    private func checkFilesNow(_ index: Int) throws {
        let device = devices[index]
        let current = owner(on: index)
        let own = current.map { words(of: $0.number) } ?? []
        let hasOthers = device.client.outbox.ofOthers > 0
        for owner in owners where !own.contains(owner.number) {
            let files = try device.device.files(with: owner.mark).filter { file in
                // Operations that wait for their owner's return are only in the outbox.
                let mayWait = hasOthers && !device.deleted.contains(owner.mark)
                return !(mayWait && file.contains("sanguine-outbox"))
            }
            guard let file = files.first else { continue }
            throw leak("'\(owner.mark)' is in \(file), and \(name(current)) is signed in")
        }
    }

    private func name(_ owner: Owner?) -> String { owner.map { "owner \($0.number)" } ?? "nobody" }

    private func leak(_ detail: String) -> UserLeak {
        let last = trace.suffix(24).joined(separator: "; ")
        return UserLeak(seed: seed, step: step, detail: "\(detail)\nThe last steps: \(last)")
    }
}
