extension StorageMatrix: CustomStringConvertible {
    /// The matrix as two aligned tables in plain text: the storage, and the reads of what is
    /// stored.
    public var description: String { text { $0.plain } }

    /// The matrix as two tables in Markdown.
    public var markdown: String { text { $0.markdown } }

    private func text(_ form: (TextTable) -> String) -> String {
        var storage = TextTable([
            "name", "kind", "server", "server for", "server history", "client", "kept", "tier",
            "client for", "client history", "restored", "note",
        ])
        for row in rows { storage.add(row.cells) }
        var reads = TextTable([
            "read", "fresh", "timeout", "attempts", "priority", "again on", "polled", "tags",
            "depends on", "version", "declared at",
        ])
        for row in rows {
            for reader in row.readers { reads.add(row.cells(of: reader)) }
        }
        var parts = [form(storage)]
        if rows.contains(where: { !$0.readers.isEmpty }) { parts.append(form(reads)) }
        if let switches {
            parts.append(switches.map { "switched by the server: \($0)" }.joined(separator: "\n"))
        }
        if leftOut > 0 { parts.append("(\(leftOut) more were used and are not listed.)") }
        return parts.joined(separator: "\n\n")
    }
}

extension StorageMatrix.Row {
    fileprivate var cells: [String] {
        [
            name, kind.rawValue, server.cached, server.audience, server.history, client.fresh,
            client.kept, client.tier, client.audience, client.history, restored.rawValue, note,
        ]
    }

    private var note: String {
        let parts = standing == .declared ? [] : [standing.rawValue]
        let replaced = switched.map { ["switched: " + $0.joined(separator: ", ")] } ?? []
        let remarks = remark.map { [$0] } ?? []
        return (parts + replaced + remarks).joined(separator: "; ")
    }

    fileprivate func cells(of reader: StorageMatrix.Reader) -> [String] {
        func list(_ items: [String]) -> String {
            items.isEmpty ? "-" : items.joined(separator: ", ")
        }
        return [
            name, reader.fresh, reader.timeout, "\(reader.attempts)", reader.priority,
            list(client.refetchedOn), client.polled ?? "-", list(client.tags),
            list(client.dependencies), "\(client.version)", reader.place ?? "-",
        ]
    }
}

/// A table as text.
private struct TextTable {
    private var lines: [[String]]

    init(_ header: [String]) { lines = [header] }

    mutating func add(_ cells: [String]) { lines.append(cells) }

    /// The table with aligned columns.
    var plain: String {
        let widths = lines[0].indices.map { column in
            lines.map { $0[column].count }.max() ?? 0
        }
        return lines.map { cells in
            let line = zip(cells, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            .joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }
        .joined(separator: "\n")
    }

    /// The table in Markdown.
    var markdown: String {
        var rows = lines.map { cells in
            "| " + cells.map(Self.escaped).joined(separator: " | ") + " |"
        }
        rows.insert("|" + String(repeating: "---|", count: lines[0].count), at: 1)
        return rows.joined(separator: "\n")
    }

    private static func escaped(_ cell: String) -> String {
        var text = ""
        for character in cell {
            switch character {
            case "|", "\\", "`", "*", "_", "<": text += "\\\(character)"
            case _ where character.isNewline: text += " "
            default: text.append(character)
            }
        }
        return text
    }
}
