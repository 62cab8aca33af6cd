import SanguineModel

/// A record type of the simulated app in one of its versions.
protocol SheetForm: SyncedRecord {
    var marks: [String: Int64] { get set }
    /// Written only by device 0.
    var left: Int64 { get set }
    /// Written only by device 1.
    var middle: Int64 { get set }
    /// Written only by device 2.
    var right: Int64 { get set }

    init(id: RecordID)

    /// Stores the sheet as a mutation of this version does.
    func store(in records: inout Records)
}

extension SheetForm {
    static var collection: RecordCollection { SimulatedApp.sheetCollection }

    func store(in records: inout Records) { records.set(self) }

    mutating func set(_ number: Int64, by device: Int) {
        switch device {
        case 0: left = number
        case 1: middle = number
        default: right = number
        }
    }
}

/// A sheet in the second version of the app.
protocol DeepSheetForm: SheetForm {
    var more: [String: Int64] { get set }
}

/// A sheet in the first version of the app.
struct OldSheet: SheetForm {
    let id: RecordID
    var marks: [String: Int64] = [:]
    var left: Int64 = 0
    var middle: Int64 = 0
    var right: Int64 = 0

    init(id: RecordID) { self.id = id }
}

/// A sheet in the second version: with one more member.
struct NewSheet: DeepSheetForm, Defaulted {
    static let defaults = NewSheet(id: SimulatedApp.sheets[0].id)
    let id: RecordID
    var marks: [String: Int64] = [:]
    var left: Int64 = 0
    var middle: Int64 = 0
    var right: Int64 = 0
    var more: [String: Int64] = [:]

    init(id: RecordID) { self.id = id }
}

/// A ``NewSheet`` without a default for its new member: see ``PlantedBug/lacksDefaults``.
struct BareSheet: DeepSheetForm {
    let id: RecordID
    var marks: [String: Int64] = [:]
    var left: Int64 = 0
    var middle: Int64 = 0
    var right: Int64 = 0
    var more: [String: Int64] = [:]

    init(id: RecordID) { self.id = id }
}

/// An ``OldSheet`` that is stored without the members that it does not know: see
/// ``PlantedBug/dropsUnknownMembers``.
struct DroppingSheet: SheetForm {
    let id: RecordID
    var marks: [String: Int64] = [:]
    var left: Int64 = 0
    var middle: Int64 = 0
    var right: Int64 = 0

    init(id: RecordID) { self.id = id }

    func store(in records: inout Records) {
        records.put(RecordValue(self), for: RecordKey(Self.collection.name, id))
    }
}

/// Leaves its mark in a sheet, in the first version of the app.
struct MarkSheet<Sheet: SheetForm>: RecordMutation {
    static var name: String { "sheet.mark" }
    let sheet: RecordID
    let lane: String

    func apply(to records: inout Records) throws {
        var form = records.get(Sheet.self, sheet) ?? Sheet(id: sheet)
        form.marks["op-\(records.operation.id)", default: 0] += 1
        form.store(in: &records)
    }
}

/// Leaves its mark in a sheet, and in its new member if it is deep, in the second version.
struct MarkDeepSheet<Sheet: DeepSheetForm>: RecordMutation, Defaulted {
    static var name: String { "sheet.mark" }
    static var defaults: Self { Self(sheet: SimulatedApp.sheets[0].id, lane: "main") }
    let sheet: RecordID
    let lane: String
    var isDeep = false

    func apply(to records: inout Records) throws {
        var form = records.get(Sheet.self, sheet) ?? Sheet(id: sheet)
        form.marks["op-\(records.operation.id)", default: 0] += 1
        if isDeep { form.more["op-\(records.operation.id)", default: 0] += 1 }
        form.store(in: &records)
    }
}

/// Leaves its mark only in the new member.
///
/// The first version does not know it, and neither does an authority before its deployment.
struct DeepenSheet<Sheet: DeepSheetForm>: RecordMutation {
    static var name: String { "sheet.deepen" }
    let sheet: RecordID
    let lane: String

    func apply(to records: inout Records) throws {
        var form = records.get(Sheet.self, sheet) ?? Sheet(id: sheet)
        form.more["op-\(records.operation.id)", default: 0] += 1
        form.store(in: &records)
    }
}

/// Represents an operation that this version of the app does not know: it is sent but not shown.
struct UnknownSheetMutation: RecordMutation {
    static let name = "unknown"
    let lane: String

    func apply(to records: inout Records) throws {
        throw Refusal(.mutatorUnknown, "This version of the app does not know the mutation.")
    }
}

/// A version of the simulated app.
struct SimulatedVersion {
    /// 1 or 2.
    let number: Int
    let bug: PlantedBug?

    var isNew: Bool { number > 1 }

    /// The other version.
    var other: SimulatedVersion { SimulatedVersion(number: 3 - number, bug: bug) }

    private var deepForm: any DeepSheetForm.Type {
        bug == .lacksDefaults ? BareSheet.self : NewSheet.self
    }

    private var form: any SheetForm.Type {
        if isNew { return deepForm }
        return bug == .dropsUnknownMembers ? DroppingSheet.self : OldSheet.self
    }

    /// The collections and mutations that this version registers.
    var schema: RecordSchema {
        var schema = SimulatedApp.client
        schema.register(form)
        schema.register(isNew ? Self.mutations(of: deepForm) : Self.mutation(of: form))
        return schema
    }

    private static func mutation(of form: (some SheetForm).Type) -> [any Registrable.Type] {
        func types<Form: SheetForm>(_: Form.Type) -> [any Registrable.Type] {
            [MarkSheet<Form>.self]
        }
        return types(form)
    }

    private static func mutations(of form: (some DeepSheetForm).Type) -> [any Registrable.Type] {
        func types<Form: DeepSheetForm>(_: Form.Type) -> [any Registrable.Type] {
            [MarkDeepSheet<Form>.self, DeepenSheet<Form>.self]
        }
        return types(form)
    }

    /// Returns a mutation that leaves its mark in a sheet.
    func mark(_ sheet: RecordID, lane: String, isDeep: Bool) -> any RecordMutation {
        func old<Form: SheetForm>(_: Form.Type) -> any RecordMutation {
            MarkSheet<Form>(sheet: sheet, lane: lane)
        }
        func new<Form: DeepSheetForm>(_: Form.Type) -> any RecordMutation {
            MarkDeepSheet<Form>(sheet: sheet, lane: lane, isDeep: isDeep)
        }
        return isNew ? new(deepForm) : old(form)
    }

    /// Returns a mutation that only the second version has.
    func deepen(_ sheet: RecordID, lane: String) -> any RecordMutation {
        func new<Form: DeepSheetForm>(_: Form.Type) -> any RecordMutation {
            DeepenSheet<Form>(sheet: sheet, lane: lane)
        }
        return new(deepForm)
    }

    /// Returns a mutation that changes the device's member of a sheet.
    ///
    /// - Throws: An error if the stored sheet is not of this version.
    func set(
        _ number: Int64,
        by device: Int,
        in value: RecordValue,
        _ key: RecordKey
    ) throws -> any RecordMutation {
        func change<Form: SheetForm>(_: Form.Type) throws -> any RecordMutation {
            var sheet = try value.record(Form.self, id: key.id)
            guard bug == .writesWholeRecords else {
                return try SetFields(sheet) { $0.set(number, by: device) }
            }
            sheet.set(number, by: device)
            return SetFields(key, try RecordValue(sheet).fields())
        }
        return try change(form)
    }

    /// Returns whether a stored sheet can be decoded.
    func reads(_ value: RecordValue, _ key: RecordKey) -> Bool {
        func isRead<Form: SheetForm>(_: Form.Type) -> Bool {
            (try? value.record(Form.self, id: key.id)) != nil
        }
        return isRead(form)
    }
}
