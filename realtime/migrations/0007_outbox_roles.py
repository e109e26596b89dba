from django.db import migrations

PLACE = """
CREATE OR REPLACE FUNCTION {schema}.realtime_outbox_place() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place bigint;
BEGIN
    SELECT position INTO place FROM {table} WHERE id = NEW.id;
    IF NOT FOUND OR place IS NOT NULL THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(1869968504, shard)
    FROM (
        SELECT DISTINCT hashtext(subject) & 255 AS shard
        FROM {table}
        WHERE position IS NULL AND code = '' AND id >= NEW.id
        ORDER BY 1
    ) AS shards;
    place := nextval(pg_get_serial_sequence('{table}', 'id'));
    UPDATE {table} SET position = place WHERE position IS NULL AND code = '' AND id >= NEW.id;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION {schema}.realtime_outbox_place() FROM PUBLIC;
"""
"""As 0005_outbox.py has it, but with the rights of the table's owner and names with their schema: whoever may insert a
row need neither read nor change the others, nor have the schema in the search path."""

NAMES = """
SELECT quote_ident(n.nspname), quote_ident(n.nspname) || '.' || quote_ident(c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'realtime_outboxmessage'::regclass
"""


def replace(apps, schema_editor):
    """On PostgreSQL alone: elsewhere there is no such function."""
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(NAMES)
        schema, table = cursor.fetchone()
    schema_editor.execute(PLACE.format(schema=schema, table=table))


class Migration(migrations.Migration):
    dependencies = [
        ("realtime", "0006_words"),
    ]

    operations = [migrations.RunPython(replace, migrations.RunPython.noop)]
