//! Tables in Parquet.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as PhysicalType},
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::Type,
};

use super::{
    column::{Column, Kind, Value},
    rows::RowWriter,
};

/// Number of values of a row group. It bounds the memory, whatever the number of rows.
const VALUES_PER_GROUP: usize = 1 << 20;

/// Writer of a table in Parquet: flat columns, compressed with Snappy, which every reader knows.
pub(super) struct ParquetTable<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Buffer>,
    rows: usize,
    rows_per_group: usize,
}

impl<W: Write + Send> ParquetTable<W> {
    /// Writes the beginning of a file. `metadata` are keys and values about the table.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn new(
        out: W,
        table: &str,
        columns: &[Column],
        metadata: &[(&str, String)],
    ) -> io::Result<Self> {
        let fields: Result<Vec<_>, _> = columns.iter().map(field).collect();
        let schema = fields
            .and_then(|fields| Type::group_type_builder(table).with_fields(fields).build())
            .map_err(failed)?;
        let metadata = metadata
            .iter()
            .map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()))
            .collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("regatta {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(metadata))
            .build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            file: file.map_err(failed)?,
            columns: columns.iter().map(Buffer::new).collect(),
            rows: 0,
            rows_per_group: (VALUES_PER_GROUP / columns.len()).max(1),
        })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            if let Some(mut writer) = group.next_column()? {
                column.write(&mut writer)?;
                writer.close()?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> RowWriter for ParquetTable<W> {
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.add(*value)?;
        }
        self.rows += 1;
        if self.rows == self.rows_per_group {
            self.write_group().map_err(failed)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group().map_err(failed)?;
        }
        self.file.close().map(|_| ()).map_err(failed)
    }
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::Integer => (PhysicalType::INT64, None),
        Kind::Unsigned => {
            let unsigned = LogicalType::integer(64, false);
            (PhysicalType::INT64, Some(unsigned))
        }
        Kind::Real => (PhysicalType::DOUBLE, None),
        Kind::Single => (PhysicalType::FLOAT, None),
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Boolean => (PhysicalType::BOOLEAN, None),
    };
    let repetition = match column.nullable {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
        .map(Arc::new)
}

/// Returns the error of the system that caused an error of the writer, or that error itself.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

/// Values of one column in the present row group.
struct Buffer {
    values: Values,
    /// For each row 1 or, for an absent value, 0; `None` for a column that never lacks one.
    levels: Option<Vec<i16>>,
}

enum Values {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Single(Vec<f32>),
    Text(Vec<ByteArray>),
    Boolean(Vec<bool>),
}

impl Buffer {
    fn new(column: &Column) -> Self {
        Self {
            values: match column.kind {
                Kind::Integer | Kind::Unsigned => Values::Integer(Vec::new()),
                Kind::Real => Values::Real(Vec::new()),
                Kind::Single => Values::Single(Vec::new()),
                Kind::Text => Values::Text(Vec::new()),
                Kind::Boolean => Values::Boolean(Vec::new()),
            },
            levels: column.nullable.then(Vec::new),
        }
    }

    fn add(&mut self, value: Value<'_>) -> io::Result<()> {
        match (&mut self.values, value) {
            (_, Value::Null) if self.levels.is_some() => {}
            (Values::Integer(values), Value::Integer(value)) => values.push(value),
            (Values::Integer(values), Value::Unsigned(value)) => {
                values.push(value.cast_signed());
            }
            (Values::Real(values), Value::Real(value)) => values.push(value),
            (Values::Single(values), Value::Single(value)) => values.push(value),
            (Values::Boolean(values), Value::Boolean(value)) => values.push(value),
            (Values::Text(values), Value::Text(text)) => {
                // Names repeat from row to row, and then share their bytes.
                let last = values.last().filter(|last| last.data() == text.as_bytes());
                let array = last.cloned().unwrap_or_else(|| ByteArray::from(text));
                values.push(array);
            }
            _ => {
                return Err(io::Error::other(
                    "a value of another type than that of its column",
                ));
            }
        }
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(value != Value::Null));
        }
        Ok(())
    }

    /// Writes the values and begins again without any.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &mut self.values {
            Values::Integer(values) => batch::<Int64Type>(writer, values, levels),
            Values::Real(values) => batch::<DoubleType>(writer, values, levels),
            Values::Single(values) => batch::<FloatType>(writer, values, levels),
            Values::Text(values) => batch::<ByteArrayType>(writer, values, levels),
            Values::Boolean(values) => batch::<BoolType>(writer, values, levels),
        }?;
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

fn batch<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    writer.typed::<T>().write_batch(&values[..], levels, None)?;
    values.clear();
    Ok(())
}
